"""What the adapters of frameworks share. Nothing here imports a framework.

- `own_forms`: a message in a framework's own form as a message of memoryd, and back. An adapter
  writes one class, an `OwnForm`: which role a value has, which of its contents become parts, and
  how the form says what another framework has stored.
- `session_steps`: the messages of a session as a list that is read from its end, appended to and
  popped. `Client._steps` and `AsyncClient._steps` run them; an adapter has each method once.
- `turns`: messages of forms that have an item for each call, as the whole turns that other
  frameworks read.
- `connections`: one connection for all objects with the same address.
- `names`: any text as a name of a namespace or a part of an item's key.
- `outcomes`: writes that end although their caller is cancelled.
"""
