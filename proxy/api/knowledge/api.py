"""All routes of the Knowledge API."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from starlette.routing import Route

from config.sections import ActionsApi, RetrievalSettings
from proxy.api.knowledge.access import ACTIONS, Access
from proxy.api.knowledge.attachments import Attachments
from proxy.api.knowledge.description import Description
from proxy.api.knowledge.documents import Documents
from proxy.api.knowledge.endpoint import routes_of
from proxy.api.knowledge.files import PATH as FILES
from proxy.api.knowledge.files import Files
from proxy.api.knowledge.forms import UploadOptions
from proxy.api.knowledge.puts import Puts
from proxy.api.knowledge.receipts import ReceiptsApi
from proxy.api.knowledge.searches import Searches
from proxy.api.knowledge.stores import PATH as STORES
from proxy.api.knowledge.stores import Stores
from proxy.api.knowledge.uploads import Uploads
from proxy.caller import Rights
from proxy.observe.receipts.receipt import Receipts
from retrieval.knowledge import Knowledge

if TYPE_CHECKING:
    from proxy.agent.actions import Actions


class KnowledgeApi:
    """The handlers of all routes."""

    def __init__(
        self,
        knowledge: Knowledge,
        settings: RetrievalSettings,
        *,
        max_body_bytes: int,
        uploads: UploadOptions,
        receipts: Receipts,
        actions: "Actions | None",
        sets: Mapping[str, ActionsApi],
    ) -> None:
        """actions: None: no API is configured."""
        self._access = access = Access(knowledge, settings, max_body_bytes=max_body_bytes)
        self._actions, self._sets = actions, sets
        attachments = Attachments(access)
        self._always = [
            *(Searches(access), ReceiptsApi(access, receipts), Uploads(access, uploads)),
            *(Documents(access), Puts(access)),
        ]
        self._files, self._stores = Files(access, uploads), [Stores(access, attachments), attachments]

    async def check_readable(self, names: Sequence[str], rights: Rights) -> None:
        """Raises ApiError where a collection is missing or not readable; without retrieval no name is read."""
        await self._access.check_readable(names, rights)

    def routes(self, *, relayed: Collection[str]) -> list[Route]:
        """relayed: paths relayed to an upstream, with all paths below: OpenAI's dialect may be relayed."""
        sets: list[object] = []
        if self._actions is None:
            relayed = {*relayed, ACTIONS}
        elif ACTIONS not in relayed:
            from proxy.api.knowledge.action_sets import ActionSetsApi  # 25 MB and 0.3 s, for a gateway with APIs alone

            sets = [ActionSetsApi(self._actions, self._sets, self._access)]
        description = Description(relayed)
        files = [] if FILES in relayed else [self._files]
        stores = [] if STORES in relayed else self._stores
        return routes_of(self._access, description, *self._always, *files, *stores, *sets)
