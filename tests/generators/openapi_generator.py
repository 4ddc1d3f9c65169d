"""The steps of test_generated_clients.py with the Python client that OpenAPI Generator generates."""

import json
import sys

from openapi_client import (
    AdminApi,
    ApiClient,
    AttributeValue,
    CollectionsApi,
    ComparedValue,
    ComparisonFilter,
    CompoundFilter,
    Configuration,
    CreateCollectionRequest,
    CreateKeyRequest,
    DocumentsApi,
    Filter,
    GivenDocument,
    JobsApi,
    Limits,
    NotFilter,
    SearchApi,
    SearchRequest,
)
from openapi_client.exceptions import NotFoundException

url, key, name, given = sys.argv[1:5]
document = json.loads(given)
client = ApiClient(Configuration(host=url, access_token=key))
documents, collections, admin = DocumentsApi(client), CollectionsApi(client), AdminApi(client)


def compared(kind: str, attribute: str, value: object) -> Filter:
    return Filter(ComparisonFilter(type=kind, key=attribute, value=ComparedValue(value)))


def sources(condition: Filter) -> list[str]:
    request = SearchRequest(query="What is the pump called?", collections=[name], filter=condition)
    return [passage.source for passage in SearchApi(client).search(request).data]


created = collections.create_collection(CreateCollectionRequest(name=name))
body = GivenDocument(
    text=document["text"],
    modified_at=document["modified_at"],
    attributes={attribute: AttributeValue(value) for attribute, value in document["attributes"].items()},
)
placed = documents.put_document(name, "pump", body)
read = documents.read_document_by_key(name, "pump")
matching = CompoundFilter(
    type="and",
    filters=[
        compared("eq", "bar", document["attributes"]["bar"]),
        Filter(NotFilter(type="not", filter=compared("eq", "tested", False))),
        compared("lte", "modified_at", document["modified_at"]),
    ],
)
other = compared("in", "colour", ["blue", "green"])
uploaded = documents.upload_files(name, file=[("valves.md", b"# Valves\n\nA valve.")])
made = admin.create_key(CreateKeyRequest(name=name, read=[name], limits=Limits(rpm=7)))
try:
    documents.read_document_by_key(name, "absent")
except NotFoundException as refused:
    missing = [refused.status, refused.data.error.code]
print(
    json.dumps(
        {
            "created": created.id,
            "placed": placed.status,
            "text": read.text,
            "modified_at": read.modified_at,
            "attributes": {attribute: value.actual_instance for attribute, value in read.attributes.items()},
            "found": sources(Filter(matching)),
            "others": sources(other),
            "uploaded": [one.status for one in uploaded.data],
            "documents": [one.key for one in documents.list_documents(name, limit=10).data],
            "jobs": [one.status for one in JobsApi(client).list_jobs(collection=name).data],
            "limit": made.limits.rpm,
            "listed": made.id in [one.id for one in admin.list_keys().data],
            "revoked": admin.revoke_key(made.id).revoked_s > made.created_s,
            "missing": missing,
            "deleted": [
                documents.delete_document_by_key(name, "pump").deleted,
                collections.delete_collection(name).deleted,
            ],
        }
    )
)
