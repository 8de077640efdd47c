package memfs

import (
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// claims holds the claims on one file: own are those of this process, foreign those of another
// process that a test simulates.
type claims struct{ own, foreign vfs.Claims }

var _ vfs.Claimer = (*FS)(nil)

// claimable returns the node of a regular file, locked and with claims allocated.
func (f *FS) claimable(h vfs.Handle) (*node, error) {
	n, err := f.lock(h)
	if err != nil {
		return nil, err
	}
	if err := n.isFile(); err != nil {
		n.mu.Unlock()
		return nil, err
	}
	if n.claims == nil {
		n.claims = new(claims)
	}
	return n, nil
}

// Claim implements vfs.Claimer.
func (f *FS) Claim(h vfs.Handle, start, length uint64, mode vfs.ClaimMode) error {
	n, err := f.claimable(h)
	if err != nil {
		return err
	}
	defer n.mu.Unlock()
	if err := claim(&n.claims.own, &n.claims.foreign, start, length, mode); err != nil {
		return err
	}
	f.claimed(n)
	return nil
}

func claim(own, others *vfs.Claims, start, length uint64, mode vfs.ClaimMode) error {
	if _, found, err := others.Against(start, length, mode); err != nil || found {
		if err == nil {
			err = syscall.EAGAIN
		}
		return err
	}
	return own.Set(start, length, mode)
}

// claimed is called after a change of n's claims. If n has got its first claim, claimed calls
// n.open; if n has lost its last, it undoes that. So a file with claims stays alive as if it were
// open. The caller holds n.mu.
func (f *FS) claimed(n *node) {
	switch none := n.claims == nil || n.claims.own.None(); {
	case !none && n.claimedBy == nil:
		n.claimedBy = n.open()
	case none && n.claimedBy != nil:
		o := n.claimedBy
		n.claimedBy = nil
		f.closeNode(n, o)
	}
}

// TestClaim implements vfs.Claimer.
func (f *FS) TestClaim(h vfs.Handle, start, length uint64, mode vfs.ClaimMode) (vfs.Claimed, bool, error) {
	n, err := f.claimable(h)
	if err != nil {
		return vfs.Claimed{}, false, err
	}
	defer n.mu.Unlock()
	return n.claims.foreign.Against(start, length, mode)
}

// DropClaims implements vfs.Claimer.
func (f *FS) DropClaims(h vfs.Handle) {
	n, err := f.claimable(h)
	if err != nil {
		return
	}
	defer n.mu.Unlock()
	n.claims.own = vfs.Claims{}
	f.claimed(n)
}

// ForeignClaim sets a claim as another process of the machine would. It is for tests. ClaimNone
// removes the claim.
func (f *FS) ForeignClaim(h vfs.Handle, start, length uint64, mode vfs.ClaimMode) error {
	n, err := f.claimable(h)
	if err != nil {
		return err
	}
	defer n.mu.Unlock()
	return claim(&n.claims.foreign, &n.claims.own, start, length, mode)
}
