package config

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
)

// ExportOptions are the options of an export, with the names of exports(5). In a file they are
// one string, separated by commas. The zero value means rw,sync,root_squash,secure for every
// client.
type ExportOptions struct {
	given *export.Export // has the options that were parsed; nil means the defaults
}

// An exportOption describes one option: its syntax, its documentation, and how it changes an
// export.Export.
type exportOption struct {
	name string
	// takes describes the value that follows the name and '='; empty if the option has no value.
	takes string
	// about is the option's subject: two different options about one subject contradict each other.
	// If an option may be given for several networks, the function alone returns the networks in its
	// value. Two such options contradict each other only if they name the same networks.
	about string
	alone func(value string) string
	// usual is true if the option is the default for its subject.
	usual bool
	// meaning is the option's text in docs/configuration.md. set changes e as the option says.
	meaning string
	set     func(e *export.Export, value string) error
}

// exportOptions has all options, in their order in the documentation.
var exportOptions = []exportOption{
	{name: "ro", about: "changes", set: always(func(e *export.Export) { e.ReadOnly = true }), meaning: "clients can only read. Without it, the mount of the file system decides: while it is read-only on the server, changes fail with \"Read-only file system\"; `mount -o remount,rw` takes effect at once"},
	{name: "rw", about: "changes", usual: true, set: always(func(e *export.Export) { e.ReadOnly = false }), meaning: "clients can read and change"},
	{name: "sync", about: "durability", usual: true, set: always(func(e *export.Export) { e.Async = false }), meaning: "the daemon replies to a change of names or attributes only when the change is on stable storage (RFC 1813 §4.8). Data that clients write to files is on stable storage after a COMMIT or a stable WRITE, also with `async`"},
	{name: "async", about: "durability", set: always(func(e *export.Export) { e.Async = true }), meaning: "the daemon may reply to a change of names or attributes before the change is on stable storage"},
	{name: "root_squash", about: "identity", usual: true, set: always(func(e *export.Export) { e.Squash = export.RootSquash }), meaning: "user 0 and group 0 act as the anonymous user and group"},
	{name: "no_root_squash", about: "identity", set: always(func(e *export.Export) { e.Squash = export.NoSquash }), meaning: "callers act as the user and groups that they name; callers that name none act as the anonymous user and group"},
	{name: "all_squash", about: "identity", set: always(func(e *export.Export) { e.Squash = export.AllSquash }), meaning: "all callers act as the anonymous user and group"},
	{name: "anonuid", takes: "N", about: "anonuid", meaning: "the anonymous user; 65534 unless given",
		set: func(e *export.Export, value string) (err error) {
			e.AnonUID, err = parseID("anonuid", value)
			return err
		}},
	{name: "anongid", takes: "N", about: "anongid", meaning: "the anonymous group; 65534 unless given",
		set: func(e *export.Export, value string) (err error) {
			e.AnonGID, err = parseID("anongid", value)
			return err
		}},
	{name: "manage_gids", about: "groups", set: always(func(e *export.Export) { e.ManageGIDs = true }), meaning: "for callers with `sys` the daemon looks up the groups that their user has on this machine, and ignores the groups that the client sends, of which there are at most 16. A user without an account here has only the group that it acts with. See [security.md](security.md#auth_sys-believes-the-client)"},
	{name: "clients", takes: "CIDR[,CIDR]", about: "clients", meaning: "the clients that the export serves: networks such as `192.0.2.0/24` or `2001:db8::/32`, or single addresses, separated by `,` or `;`. Without this option it serves all clients",
		set: func(e *export.Export, value string) (err error) {
			if e.Clients, err = parseClients(value); err != nil {
				return fmt.Errorf("clients=%s: %w", value, err)
			}
			return nil
		}},
	{name: "sec", takes: "FLAVOR[:FLAVOR][@CIDR[,CIDR]]", about: "sec", alone: networksOf, meaning: "how callers prove who they are. With `sys` they do not. With `krb5` they use Kerberos; with `krb5i` also, and data cannot be changed on the network; with `krb5p` also, and data can neither be changed nor read there. To accept several flavors, separate them by ':', the preferred one first. The default is `sys`. With networks, as in `sec=krb5p,sec=sys@192.0.2.0/24,2001:db8::/32`, the option holds only for clients in these networks. It may be given several times with networks, together with one for all other clients. If several networks contain a client's address, the smallest one counts",
		set: setSecurity},
	{name: "require_account", about: "accounts", set: always(func(e *export.Export) { e.RequireAccount = true }), meaning: "callers with Kerberos whose principal has no user on this machine are refused, except when they ask for the attributes of the export's root, as clients do when they mount. Without this option they act as the anonymous user. See [security.md](security.md#kerberos-proves-who-calls)"},
	{name: "secure", about: "ports", usual: true, set: always(func(e *export.Export) { e.Secure = true }), meaning: "callers with `sys` must call from a port below 1024; callers with Kerberos may call from any port. RDMA connections count as coming from a port below 1024, as with Linux's server; see [security.md](security.md)"},
	{name: "insecure", about: "ports", set: always(func(e *export.Export) { e.Secure = false }), meaning: "callers with `sys` may call from any port"},
	{name: "fsid", takes: "0", about: "the root", meaning: "the export is the root of the tree that clients of NFSv4 see: they mount it as `/`. If the name of another export begins with its name, they mount that export by the rest of its name. Only one export can have this option",
		set: func(e *export.Export, value string) error {
			if value != "0" {
				return fmt.Errorf("fsid=%s: only fsid=0 has a meaning: the export is the root of NFSv4's names", value)
			}
			e.Root = true
			return nil
		}},
	{name: "nested", about: "nesting", set: always(func(e *export.Export) { e.Nested = true }), meaning: "the directory may lie in an outer export (in its directory, or in a mount that is part of it) that serves more clients, or accepts weaker flavors. Without this option the daemon refuses such an export, because clients of the outer export can access its files, too: see [security.md](security.md#handles)"},
	{name: "crossmnt", about: "mounts", set: always(func(e *export.Export) { e.CrossMount = true }), meaning: "file systems that are mounted below the directory are served as well, with the options of this export: see [below](#mounts-below-an-export). Without this option, clients get an error where another file system is mounted"},
	{name: "locks", takes: "none", about: "locks", meaning: "version 3 has no locks here: programs get \"No locks available\", at once, unless the client mounts with `nolock`, so that locks hold within this client alone. Clients of version 4 lock as usual. See [mounting.md](mounting.md#locks-with-version-3)",
		set: func(e *export.Export, value string) error {
			if value != "none" {
				return fmt.Errorf("locks=%s: only locks=none has a meaning: version 3 has no locks. To have them, leave the option out", value)
			}
			e.NoLocks = true
			return nil
		}},
	{name: "utf8", about: "names", set: always(func(e *export.Export) { e.UTF8 = true }), meaning: "names that are not UTF-8 are refused over NFSv4, as RFC 7530 §12.7 says. Without this option they are accepted, because local programs create such names"},
}

// findOption returns the option with a name, or nil.
func findOption(name string) *exportOption {
	for i := range exportOptions {
		if exportOptions[i].name == name {
			return &exportOptions[i]
		}
	}
	return nil
}

// optionNames returns the names of all options.
func optionNames() (all []string) {
	for i := range exportOptions {
		all = append(all, exportOptions[i].name)
	}
	return all
}

// always returns the function set of an option without a value.
func always(set func(*export.Export)) func(*export.Export, string) error {
	return func(e *export.Export, _ string) error {
		set(e)
		return nil
	}
}

// usage returns the option as a user writes it.
func (o *exportOption) usage() string {
	if o.takes == "" {
		return o.name
	}
	return o.name + "=" + o.takes
}

// optionUsages returns all options as users write them.
func optionUsages() []string {
	var all []string
	for i := range exportOptions {
		all = append(all, exportOptions[i].usage())
	}
	return all
}

// ExportOptionsHelp returns all options and the default, for help texts.
func ExportOptionsHelp() string {
	return strings.Join(optionUsages(), " ") + ".\nThe default is " + usualOptions() + "."
}

// usualOptions returns the default options: those of an export for which the user gives no options.
func usualOptions() string {
	var usual []string
	for i := range exportOptions {
		if o := &exportOptions[i]; o.usual {
			usual = append(usual, o.name)
		}
	}
	return strings.Join(usual, ",")
}

// Apply sets the options of e.
func (o *ExportOptions) Apply(e *export.Export) {
	as := o.given
	if as == nil {
		as = usualExport()
	}
	e.Options, e.Clients, e.Security, e.Networks = as.Options, as.Clients, as.Security, as.Networks
}

// usualExport returns an export with the default options.
func usualExport() *export.Export {
	e := &export.Export{Security: []export.Security{export.Sys}, Options: export.Options{AnonUID: export.Nobody, AnonGID: export.Nobody}}
	for i := range exportOptions {
		if o := &exportOptions[i]; o.usual {
			_ = o.set(e, "") // a default option has no value
		}
	}
	return e
}

// UnmarshalText parses options separated by commas. It rejects options that contradict each
// other, because the daemon cannot know which one was meant.
func (o *ExportOptions) UnmarshalText(b []byte) error {
	e := usualExport()
	said := make(map[string]string) // by subject: the option that was given
	for _, word := range optionWords(string(b)) {
		name, value, valued := strings.Cut(word, "=")
		option := findOption(name)
		if option == nil || valued != (option.takes != "") {
			return unknownOption(word)
		}
		about := option.about
		if option.alone != nil {
			about += option.alone(value)
		}
		was, found := said[about]
		switch {
		case found && was == word:
			continue
		case found && name == "clients":
			return fmt.Errorf("%q and %q: give clients= once, with all networks: write %s,%s", was, word, was, value)
		case found:
			return fmt.Errorf("%q and %q contradict each other: leave one of them out", was, word)
		}
		if err := option.set(e, value); err != nil {
			return err
		}
		said[about] = word
	}
	o.given = e
	return checkNetworks(e, said["sec"] != "")
}

// optionWords splits options at the commas between them. A word that an option cannot be, but a network or a
// host, belongs to the networks of the option before it.
func optionWords(options string) (words []string) {
	for word := range strings.SplitSeq(options, ",") {
		word = strings.TrimSpace(word)
		last := len(words) - 1
		switch {
		case word == "":
		case last >= 0 && strings.ContainsAny(word, ".:/") && !strings.Contains(word, "=") && takesNetworks(words[last]):
			words[last] += "," + word
		default:
			words = append(words, word)
		}
	}
	return words
}

// takesNetworks reports whether an option ends with networks.
func takesNetworks(word string) bool {
	return strings.HasPrefix(word, "clients=") || strings.HasPrefix(word, "sec=") && networksOf(word) != ""
}

// unknownOption returns the error for a word that is no option, with the option that was probably meant.
func unknownOption(word string) error {
	name, value, valued := strings.Cut(word, "=")
	near := Nearest(name, optionNames())
	switch option := findOption(near); {
	case slices.Contains(export.SecurityNames, name):
		return fmt.Errorf("unknown export option %q: flavors are separated by ':', as in sec=sys:%s", word, name)
	case linuxOption(name) != nil:
		return fmt.Errorf("unknown export option %q: %s", word, linuxOption(name).why)
	case option == nil:
		return fmt.Errorf("unknown export option %q: the options are %s", word, strings.Join(optionNames(), " "))
	case near == name && valued:
		return fmt.Errorf("%q: the option %s has no value: write %s", word, name, name)
	case near == name:
		return fmt.Errorf("%q: the option %s needs a value: write %s", word, name, option.usage())
	case valued && option.takes != "":
		return fmt.Errorf("unknown export option %q: did you mean %q?", word, near+"="+value)
	default:
		return fmt.Errorf("unknown export option %q: did you mean %q?", word, near)
	}
}

func parseID(name, value string) (uint32, error) {
	n, err := strconv.ParseUint(value, 10, 32)
	// 2^32-1 is -1 to the kernel, which means "leave the id as it is" (setresuid(2)): no caller
	// could act as that id.
	if err != nil || n == math.MaxUint32 {
		return 0, fmt.Errorf("%q: write a number from 0 to 4294967294, such as %s=65534, which is nobody on most machines", name+"="+value, name)
	}
	return uint32(n), nil
}

// ParseExport parses the --export flag: DIR[:/name][,option...].
func ParseExport(s string) (Export, error) {
	var e Export
	dir, options, _ := strings.Cut(s, ",")
	if i := strings.LastIndex(dir, ":/"); i >= 0 {
		dir, e.Name = dir[:i], dir[i+1:]
	}
	err := noOptions(cmp.Or(e.Name, dir))
	if err == nil {
		err = e.Path.UnmarshalText([]byte(dir))
	}
	if err == nil {
		err = e.Options.UnmarshalText([]byte(options))
	}
	if err != nil {
		return e, &Error{File: exportFlag(s), Err: err}
	}
	return e, nil
}

// exportFlag returns the flag --export with its value, in one line.
func exportFlag(value string) string {
	if strings.ContainsFunc(value, unicode.IsControl) {
		value = strings.Trim(strconv.Quote(value), `"`)
	}
	return "--export " + value
}

// noOptions returns an error if the end of a path looks like options that are not separated from it by a
// comma. They would have no effect, and the export would be served with the default options.
func noOptions(path string) error {
	at := strings.LastIndexAny(path, " \t:(")
	if at < 0 {
		return nil
	}
	word := strings.TrimSuffix(path[at+1:], ")")
	name, _, _ := strings.Cut(word, "=")
	if findOption(name) == nil {
		return nil
	}
	path = strings.TrimRight(path[:at], " \t:(")
	return fmt.Errorf("%q is an option, and options follow a comma: write %s,%s (for a path that ends like this, use [[export]] in the configuration file)", word, path, word)
}

// ExportName returns the path that clients mount: the name given, or the directory's path.
func (e *Export) ExportName() (string, error) {
	name := e.Name
	if name == "" {
		name = e.Path.Path
	}
	if !strings.HasPrefix(name, "/") {
		return "", fmt.Errorf("export name %q is not absolute: write %q", name, "/"+name)
	}
	if i := strings.IndexFunc(name, unicode.IsControl); i >= 0 {
		return "", fmt.Errorf("export name %q has a control character, which clients cannot mount: write a name without it, such as %q", name,
			strings.Map(func(r rune) rune {
				if unicode.IsControl(r) {
					return -1
				}
				return r
			}, name))
	}
	return path.Clean(name), nil
}

// setSecurity applies the option sec to e. value has the flavors for all clients, or, with '@', for
// the clients of some networks.
func setSecurity(e *export.Export, value string) error {
	words, networks, some := strings.Cut(value, "@")
	all, err := parseSecurity(words)
	if err != nil {
		return fmt.Errorf("sec=%s: %w", value, err)
	}
	if !some {
		e.Security = all
		return nil
	}
	clients, err := parseClients(networks)
	if err != nil {
		return fmt.Errorf("sec=%s: after the '@', %w", value, err)
	}
	for _, n := range clients {
		e.Networks = append(e.Networks, export.NetworkSecurity{Network: n, Security: all})
	}
	return nil
}

// networksOf returns the networks in a value of the option sec, with the '@' before them.
func networksOf(value string) string {
	if i := strings.IndexByte(value, '@'); i >= 0 {
		return value[i:]
	}
	return ""
}

func parseSecurity(words string) (all []export.Security, err error) {
	for word := range strings.SplitSeq(words, ":") {
		i := slices.Index(export.SecurityNames, word)
		if i < 0 {
			return nil, fmt.Errorf("%q is no flavor: use some of %s, separated by ':'", word, strings.Join(export.SecurityNames, ", "))
		}
		if s := export.Securities[i]; !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all, nil
}

// checkNetworks checks the options sec that name networks. It rejects them if there is no option
// sec for all other clients (general is false), if two name the same network, or if the export
// serves no client of a network.
func checkNetworks(e *export.Export, general bool) error {
	for i, n := range e.Networks {
		switch same := func(other export.NetworkSecurity) bool { return other.Network == n.Network }; {
		case !general:
			return fmt.Errorf("sec=...@%s says nothing of other clients, which would be served with sec=sys: add sec=FLAVOR without a network for all of them", n.Network)
		case slices.ContainsFunc(e.Networks[:i], same):
			return fmt.Errorf("sec= is given twice for %s: leave one of them out", n.Network)
		case len(e.Clients) > 0 && !slices.ContainsFunc(e.Clients, func(p netip.Prefix) bool { return p.Overlaps(n.Network) }):
			return fmt.Errorf("sec=...@%s matches no network of clients=: add the network to clients=, or leave this sec= out", n.Network)
		}
	}
	return nil
}
