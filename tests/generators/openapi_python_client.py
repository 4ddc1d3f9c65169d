"""The steps of test_generated_clients.py with the client that openapi-python-client generates."""

import io
import json
import sys
from typing import Any

from ragway_client import AuthenticatedClient
from ragway_client.api.admin import create_key, list_keys, revoke_key
from ragway_client.api.collections import create_collection, delete_collection
from ragway_client.api.documents import (
    delete_document_by_key,
    list_documents,
    put_document,
    read_document_by_key,
    upload_files,
)
from ragway_client.api.jobs import list_jobs
from ragway_client.api.search import search
from ragway_client.models import (
    Attributes,
    ComparisonFilter,
    ComparisonFilterType,
    CompoundFilter,
    CompoundFilterType,
    CreateCollectionBody,
    CreateKeyBody,
    ErrorReply,
    GivenDocument,
    Limits,
    NotFilter,
    SearchRequest,
    UploadFilesBody,
)
from ragway_client.types import File

url, key, name, given = sys.argv[1:5]
document = json.loads(given)
client = AuthenticatedClient(base_url=url, token=key, timeout=60)


def compared(kind: ComparisonFilterType, attribute: str, value: Any) -> ComparisonFilter:
    return ComparisonFilter(type_=kind, key=attribute, value=value)


def sources(condition: Any) -> list[str]:
    request = SearchRequest(query="What is the pump called?", collections=[name], filter_=condition)
    return [passage.source for passage in search.sync(client=client, body=request).data]


created = create_collection.sync(client=client, body=CreateCollectionBody(name=name))
body = GivenDocument(
    text=document["text"],
    modified_at=document["modified_at"],
    attributes=Attributes.from_dict(document["attributes"]),
)
placed = put_document.sync(name, "pump", client=client, body=body)
read = read_document_by_key.sync(name, "pump", client=client)
matching = CompoundFilter(
    type_=CompoundFilterType.AND,
    filters=[
        compared(ComparisonFilterType.EQ, "bar", document["attributes"]["bar"]),
        NotFilter(filter_=compared(ComparisonFilterType.EQ, "tested", False), type_="not"),
        compared(ComparisonFilterType.LTE, "modified_at", document["modified_at"]),
    ],
)
other = compared(ComparisonFilterType.IN, "colour", ["blue", "green"])
upload = UploadFilesBody(file=[File(io.BytesIO(b"# Valves\n\nA valve."), "valves.md", "text/markdown")])
uploaded = upload_files.sync(name, client=client, body=upload)
made = create_key.sync(client=client, body=CreateKeyBody(name=name, read=[name], limits=Limits(rpm=7)))
missing = read_document_by_key.sync_detailed(name, "absent", client=client)
assert isinstance(missing.parsed, ErrorReply)
print(
    json.dumps(
        {
            "created": created.id,
            "placed": placed.status.value,
            "text": read.text,
            "modified_at": read.modified_at,
            "attributes": read.attributes.to_dict(),
            "found": sources(matching),
            "others": sources(other),
            "uploaded": [one.status.value for one in uploaded.data],
            "documents": [one.key for one in list_documents.sync(name, client=client, limit=10).data],
            "jobs": [one.status.value for one in list_jobs.sync(client=client, collection=name).data],
            "limit": made.limits.rpm,
            "listed": made.id in [one.id for one in list_keys.sync(client=client).data],
            "revoked": revoke_key.sync(made.id, client=client).revoked_s > made.created_s,
            "missing": [missing.status_code.value, missing.parsed.error.code],
            "deleted": [
                delete_document_by_key.sync(name, "pump", client=client).deleted,
                delete_collection.sync(name, client=client).deleted,
            ],
        }
    )
)
