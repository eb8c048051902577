"""Web page of `reverie serve`: server-drawn views over the operations of the HTTP API.

A group of views is a module with a list `VIEWS`, a template folder or file in `templates/` and a file of English in
`texts/`. To add a group:

1. Write `page/GROUP.py`. A view is a function `(call: Call) -> Screen | Redirect` under the decorator
   `@VIEWS.add("GET", "/path", "read", query=SomeQuery)`. It calls the operations of `/v1` with
   `perform(call, operation, ...)`, which checks the token's rights once more, and implements nothing twice.
2. A view that changes something is a `POST`; its second parameter gets the `Fields` of its form. Sign-in, the check
   that the form came from this page (CSRF) and the headers are `site.py`'s: a view cannot leave them out. It returns
   `Redirect(path)`, and the next view offers to take back what was changed.
3. Write `templates/GROUP.html`, which extends `layout.html` and sets its `title`. Values are escaped, and their
   control characters made visible, by `rendering.py`: never use `|safe`, and build links with
   `link(path, name=value)`.
4. Write all words into `texts/GROUP.toml`; templates read them as `t.GROUP.name` and hold none themselves.
5. Add the module to `GROUPS` in `site.py`, and to `NAVIGATION` if the menu shall name it.

Works without JavaScript. `static/page.js` adds three things: an element with `data-key="a"` is pressed by that key, a
button with `data-check` checks all boxes of a form, and an element with `data-live` is drawn again after each change.

Imports the operations of `interfaces.http`. Needs the package jinja2.
"""
