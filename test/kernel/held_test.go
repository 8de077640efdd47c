//go:build kernel

package kernel

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/test/kernel/filemark"
	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// A client has files of each kind of file system open while these are unmounted and mounted again, exchanged for
// others with the same names and inode numbers, and while the daemon is started again. Each descriptor leads to the
// file that was opened, or it is stale: no read returns the bytes of another file, and no write arrives in one.
// NFSRDMAD_HELD_ROUNDS is the number of rounds, and NFSRDMAD_HELD_KINDS the kinds, if not all.
func TestDescriptorsWhileMountsChange(t *testing.T) {
	needsDaemon(t)
	t.Parallel()
	var g *lab.Guest
	t.Cleanup(func() { // last, behind what the guest and the daemon printed
		if t.Failed() && g != nil {
			said := strings.Split(strings.TrimSpace(g.Output()), "\n")
			t.Log("the guest said last: ", strings.Join(said[max(0, len(said)-3):], "\n"))
		}
	})
	rounds, hows := 8, []string{"tcp", "tcp/4.0", "rdma/4.2"}
	if everything() {
		rounds = 200
	}
	if text := os.Getenv("NFSRDMAD_HELD_ROUNDS"); text != "" {
		var err error
		if rounds, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	kinds := volumeKinds
	if only := os.Getenv("NFSRDMAD_HELD_KINDS"); only != "" {
		kinds = slices.DeleteFunc(slices.Clone(kinds), func(k volumeKind) bool { return !slices.Contains(strings.Fields(only), k.name) })
	}
	var written []string
	for _, how := range hows {
		written = append(written, "written-"+strings.ReplaceAll(how, "/", "-"))
	}
	s, v := serveVolumes(t, kinds, written, "--config", shortLease(t))
	alone := []string{}
	for _, k := range kinds {
		if k.alone {
			alone = append(alone, k.name)
		}
	}
	env := []string{"ALONE=" + strings.Join(alone, " ")}
	g = s.boot(lab.Options{Limit: time.Duration(rounds+5) * time.Minute, Env: env}, "held", append([]string{fmt.Sprint(rounds)}, hows...)...)
	fates, letters := map[string]int{}, map[string]int{"r": 0, "s": 0, "l": 0}
	defer func() {
		for _, f := range slices.Sorted(maps.Keys(fates)) {
			t.Logf("%5d %s", fates[f], f)
		}
	}()
	tell := func() {
		if err := os.WriteFile(g.Shared("now"), []byte(v.now()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tell()
	g.Signal("begin")
	for round := 1; round <= rounds; round++ {
		g.Await(fmt.Sprintf("open-%d", round))
		was := maps.Clone(v.mounted)
		script, happens := v.round(round, written)
		restart := ""
		switch round % 6 {
		case 3: // what happens, happens while the daemon is stopped
			restart = ", the daemon stopped"
			s.daemon.Stop()
			v.run(script)
			v.filled(happens, written)
			s.daemon.Start()
		case 5:
			restart = ", then the daemon killed"
			v.run(script)
			v.filled(happens, written)
			s.daemon.Kill()
			s.daemon.Start()
		default:
			v.run(script)
			v.filled(happens, written)
			if len(alone) > 0 {
				s.reload()
			}
		}
		g.Signal(fmt.Sprint(round))
		g.Await(fmt.Sprintf("checked-%d", round))
		v.check(fmt.Sprintf("round %d", round), written)
		result, err := os.ReadFile(g.Shared(fmt.Sprintf("result.%d", round)))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(result)) {
			is := strings.Fields(line) // mount, kind, letters
			what := happens[is[1]]
			fates[fmt.Sprintf("%s, %s: %s%s: %s", is[0], is[1], what, restart, is[2])]++
			for letter := range letters {
				letters[letter] += strings.Count(is[2], letter)
			}
			k := kinds[slices.IndexFunc(kinds, func(k volumeKind) bool { return k.name == is[1] })]
			if is[0] == "tcp" && k.lasts && !k.fleeting && was[k.name] == v.mounted[k.name] && strings.Contains(is[2], "s") && what != "files replaced" {
				t.Errorf("round %d: %s of %s: %s%s: a descriptor is stale: %s", round, is[0], is[1], what, restart, is[2])
			}
		}
		t.Logf("round %d%s: so far %d uses of a descriptor were right, %d stale, %d of lost opens", round, restart, letters["r"], letters["s"], letters["l"])
		tell()
		g.Signal(fmt.Sprintf("next-%d", round))
	}
	g.Succeed()
}

// reload makes the daemon look at its exports again, and waits until it has.
func (s *server) reload() {
	s.t.Helper()
	const said = "configuration read again"
	before := strings.Count(s.daemon.Log(), said)
	s.daemon.Signal(syscall.SIGHUP)
	// The reload writes where the exports are to a disk that the other tests keep busy.
	if !await.Within(await.WorkloadLimit, func() bool { return strings.Count(s.daemon.Log(), said) > before }) {
		s.t.Fatalf("not within %v: %s", await.WorkloadLimit, said)
	}
}

// happenings are what may happen to a file system in a round.
var happenings = []string{"mounted again", "another one", "another one and back", "files replaced", "nothing", "another one by a new mount on top"}

// round returns the script of a round, and what happens to each kind by it.
func (v *volumes) round(round int, written []string) (script string, happens map[string]string) {
	happens = map[string]string{}
	for i, k := range v.kinds {
		at := v.at(k.name)
		now := v.mounted[k.name]
		next := map[string]string{"A": "B", "B": "C", "C": "A"}[now]
		unmount := unmountAll(at)
		what := happenings[(round+i)%len(happenings)]
		happens[k.name] = what
		switch what {
		case "mounted again":
			script += unmount + v.mount(&k, now)
		case "another one":
			script += unmount + v.mount(&k, next)
		case "another one and back":
			script += unmount + v.mount(&k, next) + unmount + v.mount(&k, now)
		case "files replaced":
			script += fmt.Sprintf("cd %s; rm removed; for i in 1 2 3 4; do echo other >other$i; done; cp read removed; sed -i 's/|read|0/|removed|%d/' removed; truncate -s 128 removed; rm other?; cd /\n", at, round)
			if k.name == "btrfs" { // a snapshot in the place of its subvolume
				script += "cd " + at + "; btrfs -q subvolume snapshot d later; btrfs -q subvolume delete d; mv later d; cd /\n"
			}
		case "another one by a new mount on top":
			if !k.lasts && !k.fleeting { // FUSE refuses a mount point that is not empty
				script += unmount
			}
			script += v.mount(&k, next)
		}
	}
	return script, happens
}

// filled writes the files of volumes that are empty at each mount.
func (v *volumes) filled(happens map[string]string, written []string) {
	for _, k := range v.kinds {
		if k.fleeting && happens[k.name] != "nothing" && happens[k.name] != "files replaced" {
			if err := filemark.Fill(v.inMounts(v.at(k.name)), k.name, v.mounted[k.name], append(volumeFiles[:len(volumeFiles):len(volumeFiles)], written...)); err != nil {
				v.t.Fatal(err)
			}
		}
	}
}
