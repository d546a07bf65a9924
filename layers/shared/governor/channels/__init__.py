"""Messages to people outside the approval page: email, Slack, Teams, PagerDuty and signed webhooks.

Renderers are pure: a `Message` in, the channel's own document out. Senders carry that document and say what
became of it. Nothing here knows AWS, approvals' storage or the policy.
"""
