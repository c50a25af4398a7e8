"""The console: a web page over the REST API. Here is what serves it; the page itself is in `static/`.

- `assets`: the files of `static/`, compressed, under a path with their digest
- `pages`: the routes, and the headers that let a page run nothing but these files

docs/console.md says how the page is built, and how a page is added to it.
"""
