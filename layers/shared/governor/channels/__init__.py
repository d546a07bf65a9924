"""Messages to people outside the approval page: email, Slack, Teams, PagerDuty and signed webhooks.

A caller asks `channel.takes(message)`, then `channel.send(message)`, and keeps `Delivered.thread` for the
next message of the episode there. Senders send once: a queue repeats what `DeliveryRetryable` says. Renderers
are pure: a `Message` in, the channel's own document out. A function pays only for the channels it uses.
"""
