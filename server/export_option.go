package server

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
)

// ExportOptions are the options of an export, by the names that exports(5) made
// known: ro rw sync async root_squash no_root_squash all_squash anonuid=
// anongid= clients=CIDR[;CIDR] insecure secure. In a file they are one string,
// separated by commas. The zero value is rw,sync,root_squash,secure for every
// client.
type ExportOptions struct {
	ReadOnly, Async, Insecure bool
	Squash                    export.Squash
	AnonUID, AnonGID          *uint32
	Clients                   []netip.Prefix
}

// flags that take no value, with what they do.
var exportFlags = map[string]func(*ExportOptions){
	"ro":             func(o *ExportOptions) { o.ReadOnly = true },
	"rw":             func(o *ExportOptions) { o.ReadOnly = false },
	"sync":           func(o *ExportOptions) { o.Async = false },
	"async":          func(o *ExportOptions) { o.Async = true },
	"secure":         func(o *ExportOptions) { o.Insecure = false },
	"insecure":       func(o *ExportOptions) { o.Insecure = true },
	"root_squash":    func(o *ExportOptions) { o.Squash = export.RootSquash },
	"no_root_squash": func(o *ExportOptions) { o.Squash = export.NoSquash },
	"all_squash":     func(o *ExportOptions) { o.Squash = export.AllSquash },
}

// UnmarshalText parses options separated by commas.
func (o *ExportOptions) UnmarshalText(b []byte) error {
	*o = ExportOptions{}
	for _, word := range strings.Split(string(b), ",") {
		if word = strings.TrimSpace(word); word == "" {
			continue
		}
		if set := exportFlags[word]; set != nil {
			set(o)
			continue
		}
		key, value, _ := strings.Cut(word, "=")
		var err error
		switch key {
		case "anonuid":
			o.AnonUID, err = parseID(word, value)
		case "anongid":
			o.AnonGID, err = parseID(word, value)
		case "clients":
			o.Clients, err = parseClients(value)
		default:
			err = fmt.Errorf("unknown export option %q: use ro, rw, sync, async, root_squash, no_root_squash, all_squash, anonuid=N, anongid=N, clients=CIDR[;CIDR], insecure or secure", word)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func parseID(word, value string) (*uint32, error) {
	n, err := strconv.ParseUint(value, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("%q: write a number from 0 to 4294967295, such as anonuid=65534", word)
	}
	id := uint32(n)
	return &id, nil
}

func parseClients(value string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, s := range strings.Split(value, ";") {
		s = strings.TrimSpace(s)
		p, err := netip.ParsePrefix(s)
		if err != nil {
			a, addrErr := netip.ParseAddr(s)
			if addrErr != nil {
				return nil, fmt.Errorf("%q is not a client network: write CIDR such as 192.0.2.0/24 or 2001:db8::/32, several separated by ';'", s)
			}
			p = netip.PrefixFrom(a, a.BitLen())
		}
		if p != p.Masked() {
			return nil, fmt.Errorf("%q has bits beyond its length: write %s", s, p.Masked())
		}
		all = append(all, p)
	}
	return all, nil
}

// ParseExport parses the --export flag: DIR[:/name][,option...].
func ParseExport(s string) (ExportConfig, error) {
	var e ExportConfig
	dir, options, _ := strings.Cut(s, ",")
	if i := strings.LastIndex(dir, ":/"); i >= 0 {
		dir, e.Name = dir[:i], dir[i+1:]
	}
	err := e.Path.UnmarshalText([]byte(dir))
	if err == nil {
		err = e.Options.UnmarshalText([]byte(options))
	}
	if err != nil {
		return e, &ConfigError{File: "--export " + s, Err: err}
	}
	return e, nil
}

// exportName is what clients mount: the name given, or the directory's path.
func (e *ExportConfig) exportName() (string, error) {
	name := e.Name
	if name == "" {
		name = e.Path.Path
	}
	if !strings.HasPrefix(name, "/") {
		return "", fmt.Errorf("export name %q is not absolute: write %q", name, "/"+name)
	}
	return path.Clean(name), nil
}

func absDir(p string) (string, error) {
	if p == "" {
		return "", errors.New("an export needs a directory: DIR[:/name][,option...]")
	}
	abs, err := filepath.Abs(p)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(abs)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", fmt.Errorf("directory %s is not there: create it (mkdir -p %s) or correct the path", abs, abs)
	case err != nil:
		return "", fmt.Errorf("directory %s cannot be opened: %w", abs, cause(err))
	case !info.IsDir():
		return "", fmt.Errorf("%s is not a directory: export the directory that holds it", abs)
	}
	return abs, nil
}

// knownKeys are all keys of the configuration file.
func knownKeys() []string {
	var keys []string
	var walk func(t reflect.Type)
	walk = func(t reflect.Type) {
		for f := range t.NumField() {
			field := t.Field(f)
			key := field.Tag.Get("toml")
			if key == "" {
				continue
			}
			keys = append(keys, key)
			inner := field.Type
			if inner.Kind() == reflect.Slice {
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Struct {
				walk(inner)
			}
		}
	}
	walk(reflect.TypeFor[Config]())
	return keys
}
