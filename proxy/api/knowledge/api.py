"""All routes of the Knowledge API."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from starlette.routing import Route

from proxy.api.knowledge.access import ACTIONS, Access
from proxy.api.knowledge.attachments import Attachments
from proxy.api.knowledge.description import Description
from proxy.api.knowledge.documents import Documents
from proxy.api.knowledge.files import PATH as FILES
from proxy.api.knowledge.files import Files
from proxy.api.knowledge.forms import UploadOptions
from proxy.api.knowledge.puts import Puts
from proxy.api.knowledge.receipts import ReceiptsApi
from proxy.api.knowledge.searches import Searches, SearchSettings
from proxy.api.knowledge.stores import PATH as STORES
from proxy.api.knowledge.stores import Stores
from proxy.api.knowledge.uploads import Uploads
from proxy.caller import Rights
from proxy.observe.receipts.receipt import Receipts
from retrieval.knowledge import Knowledge

if TYPE_CHECKING:
    from proxy.api.knowledge.action_sets import ActionSets


class KnowledgeApi:
    """The handlers of all routes."""

    def __init__(
        self,
        knowledge: Knowledge,
        *,
        enabled: bool,
        searches: SearchSettings,
        deadline_s: float,
        max_body_bytes: int,
        uploads: UploadOptions,
        receipts: Receipts,
    ) -> None:
        """enabled: whether there is retrieval."""
        self._access = access = Access(knowledge, enabled=enabled, deadline_s=deadline_s, max_body_bytes=max_body_bytes)
        puts = Puts(access)
        attachments = Attachments(access, puts)
        self._always = [
            *(Searches(access, searches), ReceiptsApi(access, receipts), Uploads(access, puts, uploads)),
            *(Documents(access), puts),
        ]
        self._files, self._stores = Files(access, uploads), [Stores(access, attachments), attachments]

    async def check_readable(self, names: Sequence[str], rights: Rights) -> None:
        """Raises ApiError where a collection is missing or not readable; without retrieval no name is read."""
        await self._access.check_readable(names, rights)

    def routes(self, *, relayed: Collection[str], actions: "ActionSets | None" = None) -> list[Route]:
        """relayed: paths relayed to an upstream, with all paths below: OpenAI's dialect may be relayed.

        actions: None: no API is configured.
        """
        actions = actions if ACTIONS not in relayed else None
        description = Description(self._access, relayed if actions is not None else {*relayed, ACTIONS})
        files = [] if FILES in relayed else [self._files]
        stores = [] if STORES in relayed else self._stores
        ours = self._access.routes(description, *self._always, *files, *stores)
        return ours if actions is None else [*ours, *actions.routes(self._access)]
