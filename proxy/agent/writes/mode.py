"""Whether a call that changes something is refused, waits for a person, or is made at once."""

from proxy.apis.call import Api
from proxy.apis.openapi.operation import Mode, Operation, strictest
from proxy.caller import Rights


def mode_of(rights: Rights, api: Api, operation: Operation) -> Mode:
    """How a call of an operation is made: as strictly as the settings of the API, the document and the key say.

    "auto" for an operation that only reads and that the caller may call; "refuse" for all that no call is made of.
    """
    if api.why_not_called(operation, rights):
        return "refuse"
    effect = api.policy.effect_of(operation)
    return strictest(api.policy.mode_of(operation), rights.mode_of(api.name, operation.names, effect))
