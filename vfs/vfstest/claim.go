package vfstest

import (
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

var claimTests = []Test{
	{"claim/our own stand against nothing", testClaimOwn},
	{"claim/another process", testClaimForeign},
	{"claim/all of it or nothing", testClaimAtomic},
	{"claim/parts", testClaimParts},
	{"claim/data is no matter", testClaimData},
	{"claim/removed files", testClaimRemoved},
	{"claim/kinds", testClaimKinds},
}

// A ForeignClaim claims a range of one file as another process of the machine.
type ForeignClaim func(start, length uint64, mode vfs.ClaimMode) error

// claiming returns the file system as a vfs.Claimer, and the handle of a file. It skips the test
// if the file system has no claims.
func (x *fixture) claiming() (vfs.Claimer, vfs.Handle) {
	x.Helper()
	c, ok := vfs.As[vfs.Claimer](x.raw)
	if !ok {
		x.Skip("no claims")
	}
	h := x.self.create(x.dir, "f", 0o644)
	x.self.mustWrite(h, 0, "content")
	if err := c.Claim(h, 0, 1, vfs.ClaimRead); err == vfs.ErrNotSupported {
		x.Skip("no claims")
	}
	c.DropClaims(h)
	if prompt, ok := c.(vfs.PromptClaimer); ok && x.try {
		c = &prompting{prompt, x}
	}
	return c, h
}

// prompting makes every call by Prompt, if that says that the call will not wait, and otherwise as it is.
type prompting struct {
	vfs.PromptClaimer
	*fixture
}

func (p *prompting) Claim(h vfs.Handle, start, length uint64, mode vfs.ClaimMode) error {
	if now, ok := p.Prompt(h, mode); ok {
		err := now.Claim(h, start, length, mode)
		now.Release()
		if err != vfs.ErrWouldBlock {
			return err
		}
		if mode == vfs.ClaimNone {
			p.Error("a call that gives up a claim would wait")
		}
	}
	return p.PromptClaimer.Claim(h, start, length, mode)
}

func (p *prompting) TestClaim(h vfs.Handle, start, length uint64, mode vfs.ClaimMode) (vfs.Claimed, bool, error) {
	if now, ok := p.Prompt(h, mode); ok {
		c, found, err := now.TestClaim(h, start, length, mode)
		now.Release()
		if err != vfs.ErrWouldBlock {
			return c, found, err
		}
	}
	return p.PromptClaimer.TestClaim(h, start, length, mode)
}

func (p *prompting) DropClaims(h vfs.Handle) {
	if now, ok := p.Prompt(h, vfs.ClaimNone); ok {
		now.DropClaims(h)
		now.Release()
		return
	}
	p.PromptClaimer.DropClaims(h)
}

// foreign starts another process that can claim ranges of the file h.
func (x *fixture) foreign(h vfs.Handle) ForeignClaim {
	x.Helper()
	if x.opt.Foreign == nil {
		x.Skip("no other process")
	}
	return x.opt.Foreign(x.T, x.raw, h, "work/f")
}

func testClaimOwn(x *fixture) {
	c, h := x.claiming()
	for i, s := range []vfs.Claimed{{Start: 0, Length: 10, Mode: vfs.ClaimRead}, {Start: 5, Length: 10, Mode: vfs.ClaimWrite},
		{Start: 0, Length: vfs.ToEnd, Mode: vfs.ClaimWrite}, {Start: 3, Length: 3, Mode: vfs.ClaimNone}, {Start: 0, Length: vfs.ToEnd, Mode: vfs.ClaimRead},
		{Start: 1<<63 - 1, Length: 1, Mode: vfs.ClaimWrite}, {Start: 1 << 63, Length: vfs.ToEnd, Mode: vfs.ClaimWrite}, {Start: 1<<64 - 1, Length: 1, Mode: vfs.ClaimRead}} {
		x.is(c.Claim(h, s.Start, s.Length, s.Mode), "Claim", nil)
		if got, found, err := c.TestClaim(h, 0, vfs.ToEnd, vfs.ClaimWrite); found || err != nil {
			x.Errorf("after claim %d, %+v of ours stands against us, %v", i, got, err)
		}
	}
	x.is(c.Claim(h, 0, vfs.ToEnd, vfs.ClaimNone), "Claim of nothing", nil)
	x.is(c.Claim(h, 0, vfs.ToEnd, vfs.ClaimNone), "Claim of nothing again", nil)
	for _, bad := range [][2]uint64{{0, 0}, {1<<64 - 1, 2}, {3, 1<<64 - 2}} {
		x.is(c.Claim(h, bad[0], bad[1], vfs.ClaimRead), "Claim of no range", syscall.EINVAL)
		_, _, err := c.TestClaim(h, bad[0], bad[1], vfs.ClaimRead)
		x.is(err, "TestClaim of no range", syscall.EINVAL)
	}
	c.DropClaims(h)
	c.DropClaims(h)
	c.DropClaims(vfs.Handle{})
}

func testClaimForeign(x *fixture) {
	c, h := x.claiming()
	other := x.foreign(h)
	const r, w = vfs.ClaimRead, vfs.ClaimWrite
	for _, mode := range []struct {
		mine, theirs vfs.ClaimMode
		conflict     bool
	}{{r, r, false}, {r, w, true}, {w, r, true}, {w, w, true}} {
		want := error(nil)
		if mode.conflict {
			want = syscall.EAGAIN
		}
		x.is(c.Claim(h, 10, 10, mode.mine), "Claim", nil)
		x.is(other(15, 10, mode.theirs), "the other's claim of what is claimed", want)
		x.is(other(20, 10, mode.theirs), "the other's claim beside it", nil)
		x.is(other(0, vfs.ToEnd, vfs.ClaimNone), "the end of the other's claims", nil)
		c.DropClaims(h)

		x.is(other(10, 10, mode.theirs), "the other's claim", nil)
		x.is(c.Claim(h, 19, vfs.ToEnd, mode.mine), "Claim of what the other has", want)
		got, found, err := c.TestClaim(h, 0, 100, mode.mine)
		if err != nil || found != mode.conflict || found && got != (vfs.Claimed{Start: 10, Length: 10, Mode: mode.theirs}) {
			x.Errorf("TestClaim with mode %d against %d: %+v, %v, %v", mode.mine, mode.theirs, got, found, err)
		}
		x.is(c.Claim(h, 20, vfs.ToEnd, mode.mine), "Claim beside the other's", nil)
		c.DropClaims(h)
		x.is(other(0, vfs.ToEnd, vfs.ClaimNone), "the end of the other's claims", nil)
	}
	x.is(other(5, vfs.ToEnd, w), "the other's claim to the end", nil)
	got, found, err := c.TestClaim(h, 1<<40, 1, r)
	if err != nil || !found || got != (vfs.Claimed{Start: 5, Length: vfs.ToEnd, Mode: w}) {
		x.Errorf("TestClaim against a claim to the end: %+v, %v, %v", got, found, err)
	}
}

func testClaimAtomic(x *fixture) {
	c, h := x.claiming()
	other := x.foreign(h)
	x.ok(c.Claim(h, 0, 10, vfs.ClaimRead), "Claim")
	x.ok(other(50, 10, vfs.ClaimRead), "the other's claim")
	x.is(c.Claim(h, 0, 100, vfs.ClaimWrite), "Claim over what the other has", syscall.EAGAIN)
	// The refused claim changed nothing: the earlier ClaimRead is still in force.
	x.is(other(0, 50, vfs.ClaimRead), "the other's claim to read", nil)
	x.is(other(0, 10, vfs.ClaimWrite), "the other's claim of what is claimed", syscall.EAGAIN)
	x.is(other(10, 40, vfs.ClaimWrite), "the other's claim of what is not", nil)
}

func testClaimParts(x *fixture) {
	c, h := x.claiming()
	other := x.foreign(h)
	x.ok(c.Claim(h, 0, vfs.ToEnd, vfs.ClaimWrite), "Claim")
	x.ok(c.Claim(h, 10, 10, vfs.ClaimNone), "Claim of nothing")
	x.ok(c.Claim(h, 30, 10, vfs.ClaimRead), "Claim")
	for _, s := range []struct {
		start, length uint64
		mode          vfs.ClaimMode
		want          error
	}{
		{0, 10, vfs.ClaimRead, syscall.EAGAIN},
		{10, 10, vfs.ClaimWrite, nil},
		{20, 10, vfs.ClaimRead, syscall.EAGAIN},
		{30, 10, vfs.ClaimRead, nil},
		{30, 10, vfs.ClaimWrite, syscall.EAGAIN},
		{1 << 40, vfs.ToEnd, vfs.ClaimRead, syscall.EAGAIN},
	} {
		x.is(other(s.start, s.length, s.mode), "the other's claim", s.want)
	}
	c.DropClaims(h)
	x.is(other(0, vfs.ToEnd, vfs.ClaimWrite), "the other's claim of all", nil)
}

// Opening, using and closing the file ends no claim.
func testClaimData(x *fixture) {
	c, h := x.claiming()
	other := x.foreign(h)
	u := x.self
	x.ok(c.Claim(h, 0, 10, vfs.ClaimWrite), "Claim")
	u.mustOpen(h, readWrite).Close()
	x.ok(u.write(h, 0, "text"), "Write")
	x.ok(u.commit(h), "Commit")
	u.mustOpen(h, vfs.OpenRead).Close()
	x.is(other(0, 10, vfs.ClaimRead), "the other's claim", syscall.EAGAIN)
	c.DropClaims(h)
	x.is(other(0, 10, vfs.ClaimRead), "the other's claim", nil)
}

func testClaimRemoved(x *fixture) {
	c, h := x.claiming()
	u := x.self
	x.ok(c.Claim(h, 0, 10, vfs.ClaimWrite), "Claim")
	x.ok(u.remove(x.dir, "f"), "Remove")
	if a := u.attr(h); a.Nlink != 0 {
		x.Errorf("a removed file: %+v", a)
	}
	x.is(c.Claim(h, 0, 10, vfs.ClaimRead), "Claim of a removed file", nil)
	c.DropClaims(h)
	var a vfs.Attr
	x.is(x.fs.GetAttr(u.op, h, &a), "GetAttr of a removed file", syscall.ESTALE)
	x.is(c.Claim(h, 0, 10, vfs.ClaimRead), "Claim of a file that is gone", syscall.ESTALE)
	_, _, err := c.TestClaim(h, 0, 10, vfs.ClaimRead)
	x.is(err, "TestClaim of a file that is gone", syscall.ESTALE)
}

func testClaimKinds(x *fixture) {
	c, _ := x.claiming()
	x.is(c.Claim(x.dir, 0, 10, vfs.ClaimRead), "Claim of a directory", syscall.EISDIR)
	x.is(c.Claim(vfs.Handle{}, 0, 10, vfs.ClaimRead), "Claim of no handle", vfs.ErrBadHandle, syscall.ESTALE)
	if x.info.Symlinks {
		x.is(c.Claim(x.self.symlink(x.dir, "link", "text"), 0, 10, vfs.ClaimRead), "Claim of a symlink", syscall.EINVAL)
	}
}
