package server

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/doctables"
)

// docs/running.md documents every metric with the text of its registry entry.
func TestEveryMetricIsDocumented(t *testing.T) {
	documented := 0
	doctables.Hold(t, "../docs/running.md", func(_, column string) (rows []string) {
		if column != "metric" {
			return nil
		}
		for _, m := range append(slices.Clone(metrics), durationMetric) {
			name := m.name
			if len(m.labels) > 0 {
				name += "{" + strings.Join(m.labels, ",") + "}"
			}
			rows = append(rows, fmt.Sprintf("| `%s` | %s |", name, m.meaning))
		}
		documented += len(rows)
		return rows
	})
	if documented != len(metrics)+1 {
		t.Errorf("docs/running.md has tables for %d metrics", documented)
	}
}

// docs/go-nfs.md documents every option of an embedded server.
func TestHandlerOptionsAreDocumented(t *testing.T) {
	b, err := os.ReadFile("../docs/go-nfs.md")
	if err != nil {
		t.Fatal(err)
	}
	options := reflect.TypeFor[HandlerOptions]()
	for i := range options.NumField() {
		if name := options.Field(i).Name; !strings.Contains(string(b), "`"+name+"`") {
			t.Errorf("docs/go-nfs.md does not explain %s", name)
		}
	}
}
