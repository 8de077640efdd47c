package architecture

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/nfsrdmad/nfsrdmad"

// A room is a package with the packages below it. rooms lists, for each room, the other rooms
// that it may import. A package belongs to the room with the longest name that contains the
// package. Tests may import anything, so this test ignores them.
var rooms = map[string][]string{
	"mem":                 {"internal/clientaddr", "internal/fair", "internal/queue"},
	"internal/busypoll":   {},
	"internal/census":     {"internal/clientaddr", "internal/queue"},
	"internal/clientaddr": {},
	"internal/doorway":    {"internal/clientaddr", "internal/queue"},
	"internal/durable":    {},
	"internal/fair":       {"internal/clientaddr"},
	"internal/histogram":  {},
	"internal/loglimit":   {"internal/clientaddr", "internal/fair", "internal/queue"},
	"internal/mountinfo":  {},
	"internal/ownaddr":    {},
	"internal/queue":      {},
	"internal/seats":      {"internal/census", "rdmacm"},
	"internal/turns":      {"internal/clientaddr", "internal/fair", "internal/queue"},
	"rdmacm":              {"mem", "internal/ownaddr", "internal/census", "internal/doorway", "internal/seats", "internal/clientaddr", "internal/fair", "internal/busypoll", "internal/turns"},
	"rpc":                 {"mem", "internal/census", "internal/clientaddr", "internal/fair", "internal/queue", "internal/turns"},
	"vfs":                 {"mem", "internal/mountinfo", "internal/queue"},
	"transport/rdma":      {"rpc", "rdmacm", "mem", "internal/clientaddr", "internal/queue"},
	"transport/tcp":       {"rpc", "mem", "internal/census", "internal/clientaddr", "internal/doorway", "internal/busypoll", "internal/turns"},
	"transport/udp":       {"rpc", "internal/clientaddr"},
	// The binding of NFS to RPC imports only the wire types. State, identity and exports import
	// no protocol's procedures. The minor versions of NFSv4 do not import each other.
	"ulb/nfs":            {"rpc", "ulb/nfs/nfs3wire", "ulb/nfs/nfs4wire", "ulb/nfs/mount3wire", "ulb/nfs/nlm4wire", "ulb/nfs/nsmwire"},
	"ulb/nfs/nfs3wire":   {"rpc/xdr"},
	"ulb/nfs/nfs4wire":   {"rpc/xdr"},
	"ulb/nfs/mount3wire": {"rpc/xdr"},
	"ulb/nfs/nlm4wire":   {"rpc/xdr"},
	"ulb/nfs/nsmwire":    {"rpc/xdr"},
	"ulb/nfs/export":     {"rpc", "vfs", "ulb/nfs/nfs3wire"},
	"ulb/nfs/pseudo":     {"rpc", "vfs", "ulb/nfs/export"},
	"ulb/nfs/identity":   {"vfs", "internal/clientaddr", "internal/fair", "internal/queue", "internal/turns"},
	"ulb/nfs/byterange":  {},
	"ulb/nfs/state":      {"vfs", "internal/clientaddr", "internal/fair", "ulb/nfs/byterange"},
	"ulb/nfs/mount3":     {"rpc", "vfs", "ulb/nfs", "ulb/nfs/mount3wire", "ulb/nfs/export", "ulb/nfs/pseudo"},
	"ulb/nfs/nfs3":       {"rpc", "vfs", "ulb/nfs", "ulb/nfs/nfs3wire", "ulb/nfs/export", "ulb/nfs/pseudo", "ulb/nfs/state"},
	"ulb/nfs/nlm":        {"rpc", "vfs", "internal/clientaddr", "ulb/nfs", "ulb/nfs/nlm4wire", "ulb/nfs/nsmwire", "ulb/nfs/export", "ulb/nfs/state"},
	"ulb/nfs/nfs4": {"rpc", "vfs", "ulb/nfs", "ulb/nfs/nfs4wire", "ulb/nfs/export", "ulb/nfs/pseudo", "ulb/nfs/identity",
		"ulb/nfs/state", "internal/histogram"},
	"ulb/nfs/nfs40": {"rpc", "vfs", "internal/fair", "ulb/nfs/nfs4", "ulb/nfs/nfs4wire", "ulb/nfs/state"},
	"ulb/nfs/nfs41": {"rpc", "internal/clientaddr", "internal/fair", "ulb/nfs", "ulb/nfs/nfs4", "ulb/nfs/nfs4wire", "ulb/nfs/export", "ulb/nfs/state"},
	// Clients import the wire types and the binding, and no server code.
	"client": {"transport/rdma", "transport/tcp", "rpc", "rdmacm", "mem", "internal/queue", "ulb/nfs", "ulb/nfs/nfs3wire", "ulb/nfs/nfs4wire", "ulb/nfs/mount3wire"},
	"server": {"server/admin", "server/config", "server/exports", "server/logline", "server/statuspage", "transport/rdma", "transport/tcp", "transport/udp", "rpc", "rdmacm", "mem", "internal/census", "internal/seats", "internal/clientaddr", "internal/busypoll", "internal/doorway", "internal/durable", "internal/loglimit", "internal/ownaddr", "ulb/nfs", "vfs", "client", "internal/histogram"},
	// server/admin only carries requests and answers. Package server knows the clients, opens and locks in them.
	"server/admin": {},
	// The configuration imports packages only for their names and defaults.
	"server/config": {"rdmacm/providers", "internal/census", "ulb/nfs/export", "ulb/nfs/identity"},
	// Exports use the configuration, and import no server code.
	"server/exports": {"server/config", "server/logline", "internal/durable", "internal/loglimit", "internal/mountinfo", "ulb/nfs/export", "vfs"},
	"server/logline": {},
	// The status page draws what the administrator's socket tells.
	"server/statuspage": {"server/admin", "internal/histogram"},
	"cmd/nfsrdmad":      {"server", "client", "rdmacm/providers", "vfs/local"},
}

// For the rooms in exact, an entry below ulb/nfs in their list allows only that package, and not
// the packages below it.
var exact = map[string]bool{"client": true, "ulb/nfs": true, "ulb/nfs/mount3": true, "ulb/nfs/nfs3": true, "ulb/nfs/nlm": true, "ulb/nfs/nfs4": true,
	"ulb/nfs/nfs41": true}

// onlyAbove are libraries that only the rooms in above may import.
var onlyAbove = []string{
	"go.uber.org/zap", "github.com/prometheus", "log", "log/slog", "github.com/coreos/go-systemd",
	"github.com/spf13", "github.com/pelletier/go-toml",
}

// above are the rooms that may import the libraries in onlyAbove.
var above = []string{"server", "cmd/nfsrdmad", "test"}

type listed struct {
	ImportPath, Name, Doc string
	Imports, XTestImports []string
	GoFiles               []string
	Standard              bool
}

// packages returns the packages of the repository, without test packages.
func packages(t *testing.T) []listed {
	t.Helper()
	list := exec.Command("go", "list", "-e", "-json=ImportPath,Name,Doc,Imports,XTestImports,GoFiles", "-tags", "kernel,interop,bench,linux", "./...")
	list.Dir = "../.."
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		p.ImportPath = strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		all = append(all, p)
	}
	if len(all) < 20 {
		t.Fatalf("go list knows %d packages", len(all))
	}
	return all
}

func in(room, pkg string) bool { return pkg == room || strings.HasPrefix(pkg, room+"/") }

// roomOf returns the room with the longest name that contains the package.
func roomOf(pkg string) (room string) {
	for r := range rooms {
		if in(r, pkg) && len(r) > len(room) {
			room = r
		}
	}
	return room
}

func TestRoomsImportDownwards(t *testing.T) {
	for _, p := range packages(t) {
		if in("test", p.ImportPath) || len(p.GoFiles) == 0 {
			continue
		}
		room := roomOf(p.ImportPath)
		if room == "" {
			t.Errorf("%s belongs to no room: give it one in the design, and here", p.ImportPath)
			continue
		}
		for _, imported := range p.Imports {
			other, ours := strings.CutPrefix(imported, module+"/")
			if !ours || in(room, other) && roomOf(other) == room {
				continue
			}
			if !slices.ContainsFunc(rooms[room], func(allowed string) bool {
				return other == allowed || !exact[room] && in(allowed, other) ||
					exact[room] && !strings.HasPrefix(allowed, "ulb") && in(allowed, other)
			}) {
				t.Errorf("%s imports %s: %s may import %q only", p.ImportPath, other, room, rooms[room])
			}
		}
	}
}

// Implementations of one interface, such as two file systems, do not import each other.
func TestSiblingsDoNotKnowEachOther(t *testing.T) {
	for _, p := range packages(t) {
		for _, rule := range []struct{ room, never string }{
			{"rdmacm/iwarp", "rdmacm/verbs"},
			{"vfs/local", "vfs/mem"}, {"vfs/local", "vfs/billy"},
			{"vfs/mem", "vfs/local"}, {"vfs/mem", "vfs/billy"},
			{"vfs/billy", "vfs/local"}, {"vfs/billy", "vfs/mem"},
			{"transport/tcp", "transport/rdma"}, {"transport/rdma", "transport/tcp"},
			{"ulb", "vfs/local"}, {"ulb", "vfs/mem"}, {"ulb", "vfs/billy"},
			{"transport", "rdmacm/iwarp"}, {"transport", "rdmacm/verbs"},
		} {
			if !in(rule.room, p.ImportPath) {
				continue
			}
			for _, imported := range p.Imports {
				if other, ours := strings.CutPrefix(imported, module+"/"); ours && in(rule.never, other) {
					t.Errorf("%s imports %s", p.ImportPath, other)
				}
			}
		}
	}
}

// Providers of package rdmacm and file systems of package vfs can be written in other modules,
// because these two packages have no internal types in their interfaces. The provider in rdmacm's
// tests shows that this is enough.
func TestSeamsAreOpenToOtherModules(t *testing.T) {
	for _, p := range packages(t) {
		if p.ImportPath != "rdmacm" && p.ImportPath != "vfs" {
			continue
		}
		imports := p.Imports
		if p.ImportPath == "rdmacm" {
			imports = slices.Concat(imports, p.XTestImports)
		}
		for _, imported := range imports {
			if strings.HasPrefix(imported, module+"/internal/") {
				t.Errorf("%s imports %s", p.ImportPath, imported)
			}
		}
	}
}

// Packages below server do not import libraries for logs or metrics. They have counters and hooks
// of their own.
func TestOnlyTheServerLogsAndMeasures(t *testing.T) {
	for _, p := range packages(t) {
		if slices.ContainsFunc(above, func(room string) bool { return in(room, p.ImportPath) }) {
			continue
		}
		for _, imported := range p.Imports {
			for _, library := range onlyAbove {
				if in(library, imported) && (library != "log" || imported == "log") {
					t.Errorf("%s imports %s", p.ImportPath, imported)
				}
			}
		}
	}
}

func TestEveryPackageHasADocComment(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.GoFiles) > 0 && p.Doc == "" {
			t.Errorf("%s has no doc comment", p.ImportPath)
		}
	}
}
