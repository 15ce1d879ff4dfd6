"""The explorer: a page on this machine where the exact curve follows the hand and the
experiment's dots stream in.

It stands on the declarations of the families; the server computes nothing, and the
scripts of the page (``browser``) know no field.

- `tasks` is all that its workers do; `lanes` starts them in threads and keeps
  deadlines.
- `limits` answers coarse first and drops what is stale; `experiments` tells running
  experiments as server-sent events. They stream because `compare` takes a `watch`,
  called after every trial.
- `fields` reads what a family declares for the page (``page.toml``), and says what that
  means for one scenario: fields in force, ranges, what a page opens on.
- `controls`, `stages` and `theory` write HTML, `views` lays a result out.
- `reopen` reads a page that was sent, `guard` says who may ask.
"""
