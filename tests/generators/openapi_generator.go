// The steps of test_generated_clients.py with the Go client that OpenAPI Generator generates.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"

	api "generated"
)

type document struct {
	Text       string                        `json:"text"`
	ModifiedAt float64                       `json:"modified_at"`
	Attributes map[string]api.AttributeValue `json:"attributes"`
}

var (
	client *api.APIClient
	ctx    = context.Background()
	name   = os.Args[3]
)

// taken ends the program where a call failed.
func taken[T any](reply T, _ *http.Response, err error) T {
	if err != nil {
		var refused *api.GenericOpenAPIError
		if errors.As(err, &refused) {
			log.Print(string(refused.Body()))
		}
		log.Fatal(err)
	}
	return reply
}

func compared(kind string, attribute string, value api.ComparedValue) api.Filter {
	return api.ComparisonFilterAsFilter(api.NewComparisonFilter(kind, attribute, value))
}

func sources(condition api.Filter) []string {
	request := api.NewSearchRequest("What is the pump called?")
	request.SetCollections([]string{name})
	request.SetFilter(condition)
	found := []string{}
	for _, passage := range taken(client.SearchAPI.Search(ctx).SearchRequest(*request).Execute()).Data {
		found = append(found, passage.Source)
	}
	return found
}

// missing reads a document that is not there: the status and the code of the typed error.
func missing() []any {
	_, reply, err := client.DocumentsAPI.ReadDocumentByKey(ctx, name, "absent").Execute()
	var refused *api.GenericOpenAPIError
	if !errors.As(err, &refused) {
		log.Fatal(err)
	}
	return []any{reply.StatusCode, refused.Model().(api.ErrorReply).Error.Code}
}

func main() {
	var given document
	if err := json.Unmarshal([]byte(os.Args[4]), &given); err != nil {
		log.Fatal(err)
	}
	settings := api.NewConfiguration()
	settings.Servers = api.ServerConfigurations{{URL: os.Args[1]}}
	settings.AddDefaultHeader("Authorization", "Bearer "+os.Args[2])
	client = api.NewAPIClient(settings)

	wanted := *api.NewCreateCollectionRequest(name)
	created := taken(client.CollectionsAPI.CreateCollection(ctx).CreateCollectionRequest(wanted).Execute())
	body := api.NewGivenDocument(given.Text)
	body.SetModifiedAt(given.ModifiedAt)
	body.SetAttributes(given.Attributes)
	placed := taken(client.DocumentsAPI.PutDocument(ctx, name, "pump").GivenDocument(*body).Execute())
	read := taken(client.DocumentsAPI.ReadDocumentByKey(ctx, name, "pump").Execute())
	no := false
	untested := compared("eq", "tested", api.BoolAsComparedValue(&no))
	found := sources(api.CompoundFilterAsFilter(api.NewCompoundFilter("and", []api.Filter{
		compared("eq", "bar", api.Float64AsComparedValue(given.Attributes["bar"].Float64)),
		api.NotFilterAsFilter(api.NewNotFilter("not", untested)),
		compared("lte", "modified_at", api.Float64AsComparedValue(&given.ModifiedAt)),
	})))
	otherColours := []string{"blue", "green"}
	others := sources(compared("in", "colour", api.ArrayOfStringAsComparedValue(&otherColours)))

	file, err := os.Create("valves.md")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Fprint(file, "# Valves\n\nA valve.")
	file.Seek(0, 0)
	uploaded := taken(client.DocumentsAPI.UploadFiles(ctx, name).File([]*os.File{file}).Execute())
	documents := taken(client.DocumentsAPI.ListDocuments(ctx, name).Limit(10).Execute())
	jobs := taken(client.JobsAPI.ListJobs(ctx).Collection(name).Execute())
	limits, wantedKey := api.NewLimits(), api.NewCreateKeyRequest(name)
	limits.SetRpm(7)
	wantedKey.SetLimits(*limits)
	wantedKey.SetRead([]string{name})
	made := taken(client.AdminAPI.CreateKey(ctx).CreateKeyRequest(*wantedKey).Execute())
	listed := false
	for _, key := range taken(client.AdminAPI.ListKeys(ctx).Execute()).Data {
		listed = listed || key.Id == made.Id
	}
	revoked := taken(client.AdminAPI.RevokeKey(ctx, made.Id).Execute())
	absent := missing()
	statuses, keys, ends := []string{}, []string{}, []string{}
	for _, one := range uploaded.Data {
		statuses = append(statuses, one.Status)
	}
	for _, one := range documents.Data {
		keys = append(keys, one.GetKey())
	}
	for _, one := range jobs.Data {
		ends = append(ends, one.Status)
	}
	gone := taken(client.DocumentsAPI.DeleteDocumentByKey(ctx, name, "pump").Execute())
	dropped := taken(client.CollectionsAPI.DeleteCollection(ctx, name).Execute())
	json.NewEncoder(os.Stdout).Encode(map[string]any{
		"created":     created.Id,
		"placed":      placed.Status,
		"text":        read.Text,
		"modified_at": read.ModifiedAt,
		"attributes":  read.Attributes,
		"found":       found,
		"others":      others,
		"uploaded":    statuses,
		"documents":   keys,
		"jobs":        ends,
		"limit":       made.Limits.GetRpm(),
		"listed":      listed,
		"revoked":     *revoked.RevokedS.Get() > made.CreatedS,
		"missing":     absent,
		"deleted":     []bool{gone.Deleted, dropped.Deleted},
	})
}
