package server

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// Every key of the configuration, and every option of an export, is documented,
// as a row of a table.
func TestEveryKeyIsDocumented(t *testing.T) {
	b, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	firstColumn := make(map[string]bool)
	for line := range strings.Lines(text) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			for word := range strings.SplitSeq(cells[1], ",") {
				word = strings.Trim(word, " `")
				if name, _, found := strings.Cut(word, "="); found {
					word = name
				}
				firstColumn[word] = true
			}
		}
	}
	tables := map[string]bool{"memory": true, "rnic": true, "limits": true, "export": true}
	for _, key := range knownKeys() {
		if tables[key] {
			if !strings.Contains(text, "\n## `["+key) && !strings.Contains(text, "\n## `[["+key+"]]`") {
				t.Errorf("docs/configuration.md has no section for [%s]", key)
			}
		} else if !firstColumn[key] {
			t.Errorf("docs/configuration.md does not explain %s", key)
		}
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
	for _, key := range knownKeys() {
		if !strings.Contains(string(b), key) {
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
