"""Back-tests policies on recorded readings: what each would have asked, stopped, saved and hit."""
