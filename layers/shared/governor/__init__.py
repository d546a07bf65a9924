"""GPU Governor: finds idle GPU instances, proves it, asks, and stops or terminates them. No data is
lost."""

import gc

__version__ = "0.1.0"

# A cold start makes under 200,000 objects that stay. Looking through them for garbage again and
# again, as by default after every 700, would take a tenth of it. `observed` brings the search back
# for what comes after.
gc.set_threshold(300_000, 20, 20)
