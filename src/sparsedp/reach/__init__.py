"""Where releases meet other systems: Spark today.

Knows everything that a caller knows, and is known by nothing but the top of the package and the command line.
"""
