"""All routes of the Knowledge API."""

from collections.abc import Collection

from starlette.routing import Route

from proxy.api.knowledge import attachments, documents, files, puts, receipts, searches, stores, uploads
from proxy.api.knowledge.access import ACTIONS, PENDING, TABLES, Access
from proxy.api.knowledge.description import Description
from proxy.api.knowledge.endpoint import routes_of


class KnowledgeApi(Access):
    """All routes."""

    def routes(self, *, relayed: Collection[str]) -> list[Route]:
        """relayed: paths relayed to an upstream, with all below: OpenAI's dialect may be relayed."""
        more: list[object] = []
        if self.approvals is None:
            relayed = {*relayed, PENDING}
        if self.actions is None or self.actions.tables is None:
            relayed = {*relayed, TABLES}
        elif TABLES not in relayed:
            from proxy.api.knowledge import tables  # as below

            more.append(tables)
        if not self.sets or self.actions is None:
            relayed = {*relayed, ACTIONS}
        elif ACTIONS not in relayed:
            from proxy.api.knowledge import action_sets  # 25 MB and 0.3 s, only for gateways with APIs

            more.append(action_sets)
            if self.approvals is not None:
                from proxy.api.knowledge import pending

                more.append(pending)
        more += [] if files.PATH in relayed else [files]
        more += [] if stores.PATH in relayed else [stores, attachments]
        return routes_of(self, Description(relayed), searches, receipts, uploads, documents, puts, *more)
