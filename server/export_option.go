package server

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path"
	"path/filepath"
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

// An exportFlag is an option that takes no value. Of those that are about the same
// thing one stands at most.
type exportFlag struct {
	about string
	set   func(*ExportOptions)
}

var exportFlags = map[string]exportFlag{
	"ro":             {"changes", func(o *ExportOptions) { o.ReadOnly = true }},
	"rw":             {"changes", func(o *ExportOptions) { o.ReadOnly = false }},
	"sync":           {"durability", func(o *ExportOptions) { o.Async = false }},
	"async":          {"durability", func(o *ExportOptions) { o.Async = true }},
	"secure":         {"ports", func(o *ExportOptions) { o.Insecure = false }},
	"insecure":       {"ports", func(o *ExportOptions) { o.Insecure = true }},
	"root_squash":    {"identity", func(o *ExportOptions) { o.Squash = export.RootSquash }},
	"no_root_squash": {"identity", func(o *ExportOptions) { o.Squash = export.NoSquash }},
	"all_squash":     {"identity", func(o *ExportOptions) { o.Squash = export.AllSquash }},
}

// UnmarshalText parses options separated by commas. Those that contradict each
// other are refused: which of them was meant is not for the daemon to guess.
func (o *ExportOptions) UnmarshalText(b []byte) error {
	*o = ExportOptions{}
	said := make(map[string]string) // by what it is about
	last := ""
	for _, word := range strings.Split(string(b), ",") {
		if word = strings.TrimSpace(word); word == "" {
			continue
		}
		key, value, valued := strings.Cut(word, "=")
		flag, known := exportFlags[word]
		about := flag.about
		if !known {
			about = key
		}
		if was, found := said[about]; found && was != word {
			if key == "clients" {
				return fmt.Errorf("%q and %q: give clients= once, with networks separated by ';': clients=%s;%s", was, word, strings.TrimPrefix(was, "clients="), value)
			}
			return fmt.Errorf("%q and %q contradict each other: leave one of them out", was, word)
		}
		said[about] = word
		var err error
		switch {
		case known:
			flag.set(o)
		case key == "anonuid":
			o.AnonUID, err = parseID(word, value)
		case key == "anongid":
			o.AnonGID, err = parseID(word, value)
		case key == "clients":
			o.Clients, err = parseClients(value)
		case last == "clients" && !valued && looksLikeNetwork(word):
			err = fmt.Errorf("%q after %q: networks are separated by ';', options by ',': write %s;%s", word, said["clients"], said["clients"], word)
		default:
			err = fmt.Errorf("unknown export option %q: use ro, rw, sync, async, root_squash, no_root_squash, all_squash, anonuid=N, anongid=N, clients=CIDR[;CIDR], insecure or secure", word)
		}
		if err != nil {
			return err
		}
		last = key
	}
	return nil
}

// looksLikeNetwork: a word that can be no option, but a network or a host.
func looksLikeNetwork(word string) bool { return strings.ContainsAny(word, ".:/") }

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
				return nil, fmt.Errorf("clients=%s: %q is not a network: write CIDR such as 192.0.2.0/24 or 2001:db8::/32, several separated by ';'", value, s)
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
