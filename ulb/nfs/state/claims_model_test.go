package state

import (
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"pgregory.net/rapid"
)

type modelClaims struct{ held, local vfs.Claims }

func (m *model) Claim(h vfs.Handle, start, length uint64, mode vfs.ClaimMode) error {
	if _, found, _ := m.claims[h].local.Against(start, length, mode); found {
		return syscall.EAGAIN
	}
	return m.claims[h].held.Set(start, length, mode)
}

func (m *model) TestClaim(h vfs.Handle, start, length uint64, mode vfs.ClaimMode) (vfs.Claimed, bool, error) {
	return m.claims[h].local.Against(start, length, mode)
}

func (m *model) DropClaims(h vfs.Handle) { m.claims[h].held = vfs.Claims{} }

// Prompt implements vfs.PromptClaimer. At times a claim would wait, and at times only the claim itself finds out.
func (m *model) Prompt(vfs.Handle, vfs.ClaimMode) (vfs.PromptClaims, bool) {
	m.prompts++
	return promptModel{m}, m.prompts%4 != 0
}

type promptModel struct{ *model }

func (m promptModel) Claim(h vfs.Handle, start, length uint64, mode vfs.ClaimMode) error {
	if m.prompts%4 == 1 && m.claims[h].held.None() && mode != vfs.ClaimNone {
		return vfs.ErrWouldBlock
	}
	return m.model.Claim(h, start, length, mode)
}

func (promptModel) Release() {}

// promptOrNot calls request at first for a caller that must not wait. If it would have to, it must have changed nothing.
func promptOrNot[T any](request func(try bool) (T, Verdict)) (T, Verdict) {
	if t, v := request(true); v != WouldWait {
		return t, v
	}
	return request(false)
}

func (m *model) claimer() vfs.Claimer {
	if m.claims == nil {
		return nil
	}
	return m
}

// local makes a process of this machine lock cells, if no conflicting lock exists.
func (m *model) local(t *rapid.T) {
	if m.claims == nil {
		return
	}
	c := m.claims[m.files[rapid.IntRange(0, len(m.files)-1).Draw(t, "file")].Handle]
	mode := vfs.ClaimMode(rapid.IntRange(0, 2).Draw(t, "mode"))
	_, _, offset, length := span(t)
	if _, found, _ := c.held.Against(offset, length, mode); !found {
		c.local.Set(offset, length, mode)
	}
}

// follows checks that the local claim on each byte is the strongest lock of clients on it.
func (m *model) follows(t *rapid.T) {
	givenUp(m.m)
	for file, key := range m.files {
		c := m.claims[key.Handle]
		if c == nil {
			continue
		}
		var want [cells]int
		m.all(func(o *modelOpen) {
			for _, l := range o.locks {
				for cell, how := range l.cells {
					if o.file == file {
						want[cell] = max(want[cell], how)
					}
				}
			}
		})
		m.hostLocks(file, func(_ *modelHost, _ int, locked *[cells]int) {
			for cell, how := range locked {
				want[cell] = max(want[cell], how)
			}
		})
		for cell, how := range want {
			start, length := startOf(cell), lastOf(cell)-startOf(cell)+1
			if cell == cells-1 {
				length = vfs.ToEnd
			}
			_, reads, _ := c.held.Against(start, length, vfs.ClaimWrite)
			_, writes, _ := c.held.Against(start, length, vfs.ClaimRead)
			if reads != (how > 0) || writes != (how == 2) {
				t.Fatalf("cell %d of file %d is locked as %d, and claimed: %v, to write: %v", cell, file, how, reads, writes)
			}
		}
	}
}
