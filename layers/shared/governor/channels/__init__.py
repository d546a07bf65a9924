"""Messages to people outside the approval page: email, Slack, Teams, PagerDuty and signed webhooks.

A caller keeps `Delivered.thread` for the next message of the episode there. Senders send once: a
queue repeats what `DeliveryRetryable` says. Renderers are pure: a `Message` in, the channel's own
document out.
"""
