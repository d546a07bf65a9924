"""Messages to people outside the approval page: email, Slack, Teams, PagerDuty and signed webhooks.

A caller asks `channel.takes(message)`, then `channel.send(message)`, and keeps `Delivered.thread` for the
next message of the episode on that channel. Senders send once: what `DeliveryRetryable` says is for a queue
to repeat, not before its `retry_after_seconds`.

Renderers are pure: a `Message` in, the channel's own document out. Nothing is imported here, so that a
function pays only for the channels it uses. Nothing here knows AWS, approvals' storage or the policy.
"""
