package config

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/doctables"
)

// docs/configuration.md has a row for every key of the configuration and every option of an export,
// with the text of its entry in settings or exportOptions.
func TestEveryKeyIsDocumented(t *testing.T) {
	documented := 0
	doctables.Hold(t, "../../docs/configuration.md", func(heading, column string) (rows []string) {
		switch column {
		case "key":
			for _, s := range settings {
				table, name, dotted := strings.Cut(s.key, ".")
				if !dotted {
					table, name = "Top level", s.key
				}
				if table == heading {
					rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s |", name, s.usual, s.effect(), s.meaning))
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

// docs/running.md explains every flag of a setting.
func TestEveryFlagIsDocumented(t *testing.T) {
	b, err := os.ReadFile("../../docs/running.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range settings {
		if s.flag != "" && !strings.Contains(string(b), "`--"+s.flagName()+" ") {
			t.Errorf("docs/running.md does not explain --%s", s.flagName())
		}
	}
}

// Each key in settings has a field in Config, and each field of Config has one entry in settings.
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

// The values in configs/nfsrdmad.toml are the defaults, and each key appears in it, at least in a
// comment.
func TestSampleConfigurationHasTheDefaults(t *testing.T) {
	const file = "../../configs/nfsrdmad.toml"
	got, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	want := new(Config)
	if err := want.Check(); err != nil {
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
	// The settings that the sample comments out must be accepted too when their # is removed.
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
