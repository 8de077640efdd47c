package main

import (
	"context"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// A suite is the tests of a package whose names match: the fields testDir and tests of a mutant.
type suite struct{ dir, tests string }

// suites has, by the beginning of a package's path, the tests outside of the package that know its
// rules. They run if the package's own tests pass.
var suites = []struct {
	dir    string
	others []suite
}{
	{"internal/durable", []suite{{"server/exports", ".*"}, {"server", "Test.*(State|Record|Restart).*"}}},
	{"internal/fair", []suite{{"mem", ".*"}, {"rpc", ".*"}, {"ulb/nfs/state", ".*"}}},
	{"internal/byterange", []suite{{"ulb/nfs/state", ".*"}}},
	{"internal", []suite{{"rdmacm/iwarp", ".*"}, {"transport/tcp", ".*"}, {"server", ".*"}}},
	{"mem", []suite{{"transport/rdma", ".*"}, {"transport/tcp", ".*"}}},
	{"rpc/gss", []suite{{"rpc/gss/krb5", ".*"}, {"rpc/gss", ".*"}, {"server", "Test.*(Krb|GSS|Kerberos|Flavor).*"}}},
	{"rpc", []suite{{"rpc", ".*"}, {"transport/tcp", ".*"}, {"transport/rdma", ".*"}}},
	{"rdmacm", []suite{{"transport/rdma", ".*"}}},
	{"transport", []suite{{"client", ".*"}}},
	{"ulb/nfs/nfs3", []suite{{"client", ".*"}}},
	{"ulb/nfs/export", []suite{{"ulb/nfs/nfs3", ".*"}, {"ulb/nfs/nfs4", ".*"}, {"server/exports", ".*"}}},
	{"ulb/nfs", []suite{{"ulb/nfs/nfs4", ".*"}, {"ulb/nfs/nfs41", ".*"}, {"ulb/nfs/nfs40", ".*"}}},
	{"vfs", []suite{{"vfs/mem", ".*"}, {"vfs/local", ".*"}}},
	{"client", []suite{{"client", ".*"}, {"client/probe", ".*"}}},
	{"server", []suite{{"server", ".*"}}},
}

// suitesFor returns the tests outside of a package that run for its drawn mutants.
func suitesFor(dir string) []suite {
	for _, s := range suites {
		if dir == s.dir || strings.HasPrefix(dir, s.dir+"/") {
			return s.others
		}
	}
	return nil
}

// compiles reports whether the code with a mutant can be built.
func (r *runner) compiles(ctx context.Context, m mutant) bool {
	_, err := r.changed(m, func(overlay string) ([]byte, error) {
		c := exec.CommandContext(ctx, "go", "build", "-overlay="+overlay, "./"+m.dir)
		c.Dir = r.root
		return c.CombinedOutput()
	})
	return err == nil
}

// failed finds the names of the tests that failed, without those of subtests.
var failed = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)

// runDrawn runs a drawn mutant: the tests of its package, and then the others, until one fails. The
// failure counts only if the same test passes without the mutant.
func (r *runner) runDrawn(ctx context.Context, d drawn) (outcome, string) {
	for _, s := range slices.Concat([]suite{{d.testDir, d.tests}}, d.others) {
		m := d.mutant
		m.testDir, m.tests = s.dir, s.tests
		out, err := r.changed(m, func(overlay string) ([]byte, error) { return r.test(ctx, m, overlay) })
		o, said := judge(out, err)
		switch {
		case o == survived || o == broken && said == noTests:
			continue
		case o == broken:
			return o, said
		}
		if name := failed.FindSubmatch(out); name != nil {
			m.tests = string(name[1])
			if err := r.sane(ctx, m); err != nil {
				said = "perhaps only a test that fails: " + err.Error()
				o = broken
			}
		}
		return o, m.testDir + " " + m.tests + ": " + said
	}
	return survived, ""
}
