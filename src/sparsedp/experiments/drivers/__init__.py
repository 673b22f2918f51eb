"""What each library does with the same bounded counts, in a process and an environment of its own.

`python PATH/drivers LIBRARY WAY DATA ANSWER …` runs this folder as a program, which needs nothing
but the library and Python 3.9: `__main__` reads the data, measures time and memory and writes the
answer, and `with_LIBRARY` calls the library.
"""
