//go:build interop

package krb5

import (
	"bufio"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"testing"
)

//go:embed peer.py
var script string

// A peer is one end of a context in MIT's library.
type peer struct {
	t   *testing.T
	in  io.WriteCloser
	out *bufio.Reader
}

// An answer is the peer's answer to a request.
type answer struct {
	Token, Message, Initiator, Error string
	Minor                            uint32 // minor status of Error
	Complete, Sealed                 bool
	Lifetime                         int
}

type request map[string]any

// newPeer starts a peer. It ends with the test.
func newPeer(t *testing.T, env []string, role, target, bindings string, mutual bool) *peer {
	t.Helper()
	wants := "0"
	if mutual {
		wants = "1"
	}
	c := exec.Command("/usr/bin/python3", "-c", script, role, target, wants, bindings)
	c.Env, c.Stderr = env, os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := c.Wait(); err != nil {
			t.Error("the peer:", err)
		}
	})
	return &peer{t: t, in: in, out: bufio.NewReader(out)}
}

// ask sends a request to the peer and returns its answer, which may be an error.
func (p *peer) ask(what string, r request) (a answer) {
	p.t.Helper()
	if r == nil {
		r = request{}
	}
	r["do"] = what
	line, err := json.Marshal(r)
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		p.t.Fatal(err)
	}
	line, err = p.out.ReadBytes('\n')
	if err != nil {
		p.t.Fatalf("the peer's answer to %s: %v", what, err)
	}
	if err := json.Unmarshal(line, &a); err != nil {
		p.t.Fatal(err)
	}
	return a
}

// must is ask, but fails the test if the answer is an error.
func (p *peer) must(what string, r request) answer {
	p.t.Helper()
	a := p.ask(what, r)
	if a.Error != "" {
		p.t.Fatalf("%s: %s", what, a.Error)
	}
	return a
}

func (p *peer) bytes(text string) []byte {
	p.t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		p.t.Fatal(err)
	}
	return b
}
