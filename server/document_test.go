package server

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tables of docs/configuration.md and docs/running.md anew")

// rewritten returns a document with the rows of its tables as the registry has them:
// rows finds those of a table by the heading above it and the name of its first column.
func rewritten(text string, rows func(heading, column string) []string) string {
	var out []string
	heading, inTable := "", false
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, "#") {
			heading = strings.Trim(line, "# `[]")
		}
		if !strings.HasPrefix(line, "|") {
			inTable = false
		} else if inTable {
			continue
		}
		out = append(out, line)
		if strings.HasPrefix(line, "|---") {
			column, _, _ := strings.Cut(strings.Trim(out[len(out)-2], "| "), " |")
			if anew := rows(heading, column); anew != nil {
				out, inTable = append(out, anew...), true
			}
		}
	}
	return strings.Join(out, "\n")
}

// holdDocument fails the test unless the tables of a document are the registry's.
func holdDocument(t *testing.T, file string, rows func(heading, column string) []string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := rewritten(string(b), rows)
	switch {
	case want == string(b):
	case *update:
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("the tables of %s are not the registry's: go test ./server -run %s -update", file, t.Name())
	}
}

// Every key of the configuration, and every option of an export, is documented, in the
// words of its entry.
func TestEveryKeyIsDocumented(t *testing.T) {
	documented := 0
	holdDocument(t, "../docs/configuration.md", func(heading, column string) (rows []string) {
		switch column {
		case "key":
			for _, s := range settings {
				table, name, dotted := strings.Cut(s.key, ".")
				if !dotted {
					table, name = "Top level", s.key
				}
				if table == heading {
					rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |", name, s.usual, s.meaning))
				}
			}
		case "option":
			for _, o := range exportOptions {
				rows = append(rows, fmt.Sprintf("| `%s` | %s |", o.usage(), o.meaning))
			}
		}
		documented += len(rows)
		return rows
	})
	if want := len(settings) + len(exportOptions); documented != want {
		t.Errorf("docs/configuration.md has tables for %d keys and options of %d", documented, want)
	}
}

// Every metric is documented, in the words of its entry.
func TestEveryMetricIsDocumented(t *testing.T) {
	documented := 0
	holdDocument(t, "../docs/running.md", func(_, column string) (rows []string) {
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

// Every flag of a setting is documented.
func TestEveryFlagIsDocumented(t *testing.T) {
	b, err := os.ReadFile("../docs/running.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range settings {
		if s.flag != "" && !strings.Contains(string(b), "`--"+s.flagName()+" ") {
			t.Errorf("docs/running.md does not explain --%s", s.flagName())
		}
	}
}

// Each key of the registry has its field in Config, and each field its entry.
func TestEveryFieldIsASetting(t *testing.T) {
	fields := make(map[string]bool)
	var walk func(prefix string, table reflect.Type)
	walk = func(prefix string, table reflect.Type) {
		for i := range table.NumField() {
			f := table.Field(i)
			key := f.Tag.Get("toml")
			switch inner := f.Type; {
			case key == "":
			case isTable(inner) && inner.Kind() == reflect.Slice:
				walk(prefix+key+".", inner.Elem())
			case isTable(inner):
				walk(prefix+key+".", inner)
			default:
				fields[prefix+key] = true
			}
		}
	}
	walk("", reflect.TypeFor[Config]())
	for _, s := range settings {
		if !fields[s.key] {
			t.Errorf("%s has no field, or two entries", s.key)
		}
		delete(fields, s.key)
	}
	for key := range fields {
		t.Errorf("%s has no entry", key)
	}
}

// configs/nfsrdmad.toml is what is there without a file: the values in it, and
// those in its comments.
func TestSampleConfigurationHasTheDefaults(t *testing.T) {
	const file = "../configs/nfsrdmad.toml"
	got, err := ReadConfig(file)
	if err != nil {
		t.Fatal(err)
	}
	want := new(Config)
	if err := want.check(); err != nil {
		t.Fatal(err)
	}
	on := true
	want.Rpcbind, want.file, want.origin = &on, file, got.origin
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s says\n%+v\nthe defaults are\n%+v", file, got, want)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, setting := range settings {
		if key := lastPart(setting.key); !strings.Contains(string(b), key) {
			t.Errorf("%s does not show %s", file, key)
		}
	}
	// What is commented out must still be accepted where it is not.
	var uncommented []string
	for line := range strings.Lines(string(b)) {
		line = strings.TrimRight(line, "\n")
		bare := strings.TrimPrefix(line, "# ")
		if key, _, set := strings.Cut(bare, " = "); bare != line && (set && !strings.Contains(key, " ") || bare == "[[export]]") {
			line = bare
		}
		uncommented = append(uncommented, line)
	}
	all := strings.ReplaceAll(strings.Join(uncommented, "\n"), `"/srv/data"`, `"`+t.TempDir()+`"`)
	c, err := parseConfig(file, []byte(all))
	if err != nil {
		t.Fatalf("with its examples: %v", err)
	}
	if len(c.Exports) != 1 || c.Metrics == "" || c.Memory.Connection != want.Memory.Connection || c.Limits.IdleTimeout == 0 {
		t.Errorf("its examples are not all there: %+v", c)
	}
}

// Every option of an embedded server is documented.
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
