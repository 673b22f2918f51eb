"""What makes the site besides its pages: the page of commands, pages from elsewhere, and the
figures.
"""
