package mountinfo_test

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/internal/mountinfo"
)

func TestParse(t *testing.T) {
	got := mountinfo.Parse(`36 35 98:0 /mnt1 /mnt\0402\134x rw,noatime master:1 shared:2 - ext3 /dev/root rw,errors=continue
not a line
37 36 0:44 / /srv rw - tmpfs none rw
x 36 0:44 / /srv rw - tmpfs none rw
38 36 0:44 / /srv rw
39 36 0:45 / /a\09 rw - fuse.sshfs - rw
40 36 0:46 / /b rw - fuse.sshfs host: rw,user_id=1000,group_id=1000
41 36 0:47 / /c rw - fuseblk /dev/sdb rw,user_id=0,group_id=0
42 36 0:48 / /d rw - ext4 /dev/sdc rw,user_id=1000
`)
	want := []mountinfo.Mount{
		{ID: 36, Parent: 35, Device: "98:0", Root: "/mnt1", Point: `/mnt 2\x`, Kind: "ext3"},
		{ID: 37, Parent: 36, Device: "0:44", Root: "/", Point: "/srv", Kind: "tmpfs"},
		{ID: 39, Parent: 36, Device: "0:45", Root: "/", Point: `/a\09`, Kind: "fuse.sshfs"},
		{ID: 40, Parent: 36, Device: "0:46", Root: "/", Point: "/b", Kind: "fuse.sshfs", Owner: "1000"},
		{ID: 41, Parent: 36, Device: "0:47", Root: "/", Point: "/c", Kind: "fuseblk"},
		{ID: 42, Parent: 36, Device: "0:48", Root: "/", Point: "/d", Kind: "ext4"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
}

// Blanks, line ends and backslashes of paths are written as octal digits.
func TestEscapes(t *testing.T) {
	for escaped, want := range map[string]string{
		`/a\040b`: "/a b", `/a\134b`: `/a\b`, `/plain`: "/plain", `/\011`: "/\t", `/end\04`: `/end\04`, `/a\400b`: `/a\400b`,
	} {
		all := mountinfo.Parse("1 1 0:1 / " + escaped + " rw - tmpfs none rw\n")
		if len(all) != 1 || all[0].Point != want {
			t.Errorf("%q is %+v, want %q", escaped, all, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 - ext3 /dev/root rw\n")
	f.Add("1 1 0:1 / / rw - rootfs rootfs rw\n2 1 0:2 / /a\\")
	f.Fuzz(func(t *testing.T, text string) {
		all := mountinfo.Parse(text)
		if len(all) > strings.Count(text, "\n")+1 {
			t.Errorf("%d mounts", len(all))
		}
		for _, m := range all {
			if strings.Contains(m.Kind, " ") || mountinfo.Find(all, m.ID) == nil {
				t.Errorf("%+v", m)
			}
		}
	})
}

// Read lists the mount at /proc, with the ID that statx returns.
func TestRead(t *testing.T) {
	all, err := mountinfo.Read()
	if err != nil {
		t.Fatal(err)
	}
	var sx unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, "/proc", 0, unix.STATX_MNT_ID, &sx); err != nil {
		t.Fatal(err)
	}
	if m := mountinfo.Find(all, sx.Mnt_id); m == nil || m.Point != "/proc" || m.Kind != "proc" {
		t.Errorf("/proc is %+v", m)
	}
}

// Below visits the mounts that no other mount hides. Of several mounts at one path it visits the
// last one. If visit returns true, it also visits the mounts below that mount.
func TestBelow(t *testing.T) {
	var all []mountinfo.Mount
	add := func(id, parent uint64, point string) {
		all = append(all, mountinfo.Mount{ID: id, Parent: parent, Point: point, Root: "/", Kind: fmt.Sprint("k", id)})
	}
	add(1, 1, "/") // its own parent, like the first mount of a namespace
	add(2, 1, "/srv")
	add(3, 2, "/srv/a")
	add(4, 2, "/srv/a/under") // mounted before 3, which hides it
	add(5, 3, "/srv/a")       // mounted on top of 3
	add(6, 5, "/srv/a/b")
	add(7, 3, "/srv/a/c") // hidden by 5
	add(8, 2, "/srv/ab")
	add(9, 1, "/srv2/x")
	add(10, 2, "/srv") // on top of the directory itself: a descriptor opened before shows the mounts beneath
	add(11, 10, "/srv/d")
	add(12, 6, "/srv/a/b/deep")
	add(13, 2, "/srv/e/f/g")
	tree := mountinfo.NewTree(all)
	below := func(top uint64, dir string, into func(m *mountinfo.Mount) bool) (got []string) {
		tree.Below(top, dir, func(m, under *mountinfo.Mount) bool {
			on := top
			if under != nil {
				on = under.ID
			}
			got = append(got, fmt.Sprint(m.ID, " on ", on))
			return into(m)
		})
		return got
	}
	every := func(*mountinfo.Mount) bool { return true }
	for _, c := range []struct {
		top  uint64
		dir  string
		into func(*mountinfo.Mount) bool
		want []string
	}{
		{2, "/srv", every, []string{"5 on 2", "6 on 5", "12 on 6", "8 on 2", "13 on 2"}},
		{2, "/srv", func(m *mountinfo.Mount) bool { return m.ID != 5 }, []string{"5 on 2", "8 on 2", "13 on 2"}},
		{2, "/srv/e", every, []string{"13 on 2"}},
		// For the covered directory: a descriptor opened before shows the mounts below.
		{2, "/srv/a", every, []string{"4 on 2"}},
		{1, "/", every, []string{"10 on 1", "11 on 10", "9 on 1"}},
		{99, "/", every, nil},
	} {
		if got := below(c.top, c.dir, c.into); !reflect.DeepEqual(got, c.want) {
			t.Errorf("below %s on %d: %q, want %q", c.dir, c.top, got, c.want)
		}
	}
}

// Watch reports a change once, and Stop ends the wait.
func TestWatch(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting takes user 0")
	}
	w, err := mountinfo.Watch()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	dir := t.TempDir()
	changed := make(chan bool)
	go func() {
		for range 2 {
			changed <- w.Changed()
		}
	}()
	if err := unix.Mount("none", dir, "tmpfs", 0, ""); err != nil {
		t.Skip(err)
	}
	if !<-changed {
		t.Error("no change")
	}
	if err := unix.Unmount(dir, 0); err != nil {
		t.Fatal(err)
	}
	if !<-changed {
		t.Error("no second change")
	}
	go func() { changed <- w.Changed() }()
	w.Stop()
	for <-changed { // changes by other programs on this machine
		go func() { changed <- w.Changed() }()
	}
}
