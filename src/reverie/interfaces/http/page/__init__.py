"""Web page of `reverie serve`: server-drawn views, each a function and a template.

To add a view, write a function `(call: Call) -> Screen | Redirect` in the module of its group, under the decorator
`@VIEWS.add("GET", "/path", "read")`, and its template in `templates/`.

1. A view that changes something is a `POST`; its second parameter gets the `Fields` of its form. Sign-in, the check
   that the form came from this page (CSRF) and the headers are `site.py`'s: a view cannot leave them out. It returns
   `Redirect(path)`, and the next view offers to take back what was changed.
2. The right in the decorator is checked before the view runs; it must allow all that the view does.
3. Values are escaped, and their control characters made visible, by `rendering.py`: never use `|safe`, and build links
   with `link(path, name=value)`.

Works without JavaScript. `static/page.js` adds keys (an element with `data-key="a"` is pressed by that key) and *Copy*.

Imports the operations of `interfaces.http`. Needs the package jinja2.
"""
