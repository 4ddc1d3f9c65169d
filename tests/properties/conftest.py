"""Properties are about what comes out, not how soon: a busy machine fails none of them."""

from hypothesis import HealthCheck, settings

settings.register_profile("ragway", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ragway")
