package wire

import (
	"fmt"
	"strings"
	"testing"
)

// A came is a message of a script, and what a Sequence says about it: "" if it goes on, "drop" if it is
// dropped without an answer, "cont" if INVAL_CONT goes back, "cont-7" if the incomplete call 7 ends as well, "cont-reply 7"
// if that is a reply, and "cont+7" or "cont+reply 7" if INVAL_CONT goes back for XID 7 too.
type came struct {
	ht              HeaderType
	xid             uint32
	size, remaining int
	want            string
}

func (c came) said(s *Sequence) string {
	p := Prefix2{XID: c.xid, Version: Version2, Type: c.ht}
	step := s.Admit(p)
	r := step.Refusal
	if !r.Refused() && (c.ht.IsMiddle() || c.ht == TypeCallInline || c.ht == TypeReplyInline) {
		r = s.Add(p, c.size, uint32(c.remaining))
	}
	var said []string
	switch {
	case step.Drop && r.Refused() && r.Answer == (ErrorBody2{}):
		said = append(said, "drop")
	case r.Refused() && r.Answer == (ErrorBody2{Code: Err2InvalCont}):
		said = append(said, "cont")
	case r.Refused():
		said = append(said, r.Why)
	}
	if step.Interrupted {
		said = append(said, fmt.Sprintf("%s%s%d", map[bool]string{true: "+", false: "-"}[step.Inform], map[bool]string{true: "reply "}[step.Reply], step.XID))
	}
	return strings.Join(said, "")
}

// The parts of an RPC message come one after another, and properties come once. What breaks this order is
// refused with INVAL_CONT, and so is the RPC message that it interrupts; its later parts are dropped without
// an answer. Rows V2-3, V2-51, V2-52, V2-53, V2-56, V2-61, V2-80, V2-81, V2-N13 of docs/conformance.md.
func TestSequence(t *testing.T) {
	const cm, ci, ce = TypeCallMiddle, TypeCallInline, TypeCallExternal
	const rm, ri, re = TypeReplyMiddle, TypeReplyInline, TypeReplyExternal
	const pm, pf = TypeConnpropMiddle, TypeConnpropFinal
	for name, script := range map[string][]came{
		"whole messages": {{ce, 1, 0, 0, ""}, {ci, 2, 40, 0, ""}, {re, 3, 0, 0, ""}, {ri, 4, 24, 0, ""}, {TypeGrant, 0, 0, 0, ""}},
		"a call in parts, then another": {{cm, 1, 100, 60, ""}, {cm, 1, 50, 10, ""}, {ci, 1, 10, 0, ""}, {ci, 2, 40, 0, ""},
			{cm, 1, 100, 4, ""}, {ci, 1, 4, 0, ""}},
		"a reply in parts":           {{rm, 1, 100, 60, ""}, {rm, 1, 56, 4, ""}, {ri, 1, 4, 0, ""}, {ri, 1, 40, 0, ""}},
		"parts of odd lengths":       {{cm, 1, 5, 12, ""}, {cm, 1, 5, 7, ""}, {ci, 1, 7, 0, ""}},
		"the longest that may come":  {{cm, 1, 4, 996, ""}, {ci, 1, 996, 0, ""}},
		"a byte too long":            {{cm, 1, 4, 997, "cont"}, {ci, 1, 997, 0, "drop"}, {ci, 2, 40, 0, ""}},
		"a length that wraps":        {{cm, 1, 8, -4, "cont"}, {cm, 1, 8, -12, "drop"}},
		"parts that never end":       {{cm, 1, 4, 996, ""}, {cm, 1, 4, 992, ""}, {cm, 1, 4, 992, "cont"}, {cm, 1, 4, 988, "drop"}},
		"nothing remains (V2-80)":    {{cm, 1, 40, 0, "cont"}, {ci, 1, 40, 0, "drop"}, {ci, 1, 40, 0, ""}},
		"three bytes (V2-80)":        {{cm, 1, 3, 40, "cont"}, {ci, 1, 40, 0, "drop"}},
		"three bytes later (V2-80)":  {{cm, 1, 40, 40, ""}, {cm, 1, 3, 37, "cont"}, {ci, 1, 37, 0, "drop"}, {ci, 1, 37, 0, ""}},
		"three bytes at the end":     {{cm, 1, 40, 3, ""}, {ci, 1, 3, 0, "cont"}, {ci, 1, 40, 0, ""}},
		"no byte at the end":         {{cm, 1, 40, 4, ""}, {ci, 1, 0, 0, "cont"}},
		"a whole message of 0 bytes": {{ci, 1, 0, 0, ""}}, // JudgeMessage refuses it
		"too much remains (V2-80)":   {{cm, 1, 40, 40, ""}, {cm, 1, 20, 21, "cont"}, {cm, 1, 20, 1, "drop"}, {ci, 1, 4, 0, "drop"}, {ci, 1, 4, 0, ""}},
		"too little remains (V2-80)": {{rm, 1, 40, 40, ""}, {rm, 1, 20, 19, "cont"}, {ri, 1, 19, 0, "drop"}},
		"the end is too long":        {{cm, 1, 40, 40, ""}, {ci, 1, 41, 0, "cont"}, {ci, 2, 41, 0, ""}},
		"the end is too short":       {{cm, 1, 40, 40, ""}, {ci, 1, 39, 0, "cont"}, {ci, 1, 39, 0, ""}},
		"another call between parts (V2-3, V2-56, V2-81)": {{cm, 1, 40, 40, ""}, {ci, 2, 40, 0, "cont+1"}, {cm, 1, 20, 20, "drop"}, {ci, 1, 20, 0, "drop"},
			{ci, 1, 20, 0, ""}},
		"parts of another call between them (V2-3, V2-56, V2-81)": {{cm, 1, 40, 40, ""}, {cm, 2, 40, 40, "cont+1"}, {cm, 1, 20, 20, "drop"}, {cm, 2, 20, 20, "drop"},
			{ci, 1, 20, 0, "drop"}, {ci, 2, 20, 0, "drop"}, {ci, 2, 20, 0, ""}, {ci, 1, 20, 0, ""}},
		"an external call between parts (V2-56)": {{cm, 1, 40, 40, ""}, {ce, 1, 0, 0, "cont-1"}, {ce, 1, 0, 0, "drop"}, {ci, 1, 40, 0, "drop"}, {ce, 1, 0, 0, ""}},
		"a reply between parts (V2-56)":          {{cm, 1, 40, 40, ""}, {ri, 9, 40, 0, "cont+1"}, {ci, 1, 40, 0, "drop"}},
		"a reply of the same XID (V2-56)":        {{cm, 1, 40, 40, ""}, {ri, 1, 40, 0, "cont-1"}, {ri, 1, 40, 0, ""}, {ci, 1, 40, 0, "drop"}},
		"a reply's part between parts (V2-56)":   {{cm, 1, 40, 40, ""}, {rm, 1, 40, 40, "cont-1"}, {ri, 1, 40, 0, "drop"}, {ci, 1, 40, 0, "drop"}},
		"properties between parts (V2-56)":       {{cm, 1, 40, 40, ""}, {pf, 9, 0, 0, "cont+1"}, {ci, 1, 40, 0, "drop"}, {pf, 9, 0, 0, ""}},
		"a grant between parts (V2-51)":          {{cm, 1, 40, 40, ""}, {TypeGrant, 1, 0, 0, "cont"}, {ci, 1, 40, 0, ""}},
		"an error between parts":                 {{cm, 1, 40, 40, ""}, {TypeError, 1, 0, 0, "cont"}, {ci, 1, 40, 0, ""}},
		"a call between parts of a reply (V2-61)": {{rm, 1, 40, 40, ""}, {ci, 2, 40, 0, "cont+reply 1"}, {ri, 1, 40, 0, "drop"},
			{ri, 1, 40, 0, ""}},
		"a call of the reply's XID between its parts (V2-61)": {{rm, 5, 40, 40, ""}, {ci, 5, 40, 0, "cont-reply 5"}, {ri, 5, 40, 0, "drop"},
			{ci, 5, 40, 0, ""}},
		"a call's part of the reply's XID (V2-61, V2-81)": {{rm, 5, 40, 40, ""}, {cm, 5, 40, 40, "cont-reply 5"}, {ci, 5, 40, 0, "drop"}, {ri, 5, 40, 0, "drop"}},
		"a reply between parts of a reply (V2-61)":        {{rm, 1, 40, 40, ""}, {ri, 2, 40, 0, "cont+reply 1"}, {rm, 1, 20, 20, "drop"}},
		"an external one between its parts (V2-61)":       {{rm, 1, 40, 40, ""}, {re, 1, 0, 0, "cont-reply 1"}, {ri, 1, 40, 0, "drop"}},
		"properties in parts":                             {{pm, 7, 0, 0, ""}, {pm, 8, 0, 0, ""}, {pf, 9, 0, 0, ""}, {ci, 1, 40, 0, ""}},
		"properties behind calls":                         {{ci, 1, 40, 0, ""}, {pm, 7, 0, 0, ""}, {pf, 7, 0, 0, ""}},
		"a call before the last properties (V2-52)":       {{pm, 7, 0, 0, ""}, {ci, 1, 40, 0, "cont"}, {pf, 7, 0, 0, ""}, {ci, 1, 40, 0, ""}},
		"a grant before the last properties (V2-52)":      {{pm, 7, 0, 0, ""}, {TypeGrant, 0, 0, 0, "cont"}, {pf, 7, 0, 0, ""}},
		"a part before them (V2-52, V2-81)": {{pm, 7, 0, 0, ""}, {cm, 1, 40, 40, "cont"}, {ci, 1, 40, 0, "drop"}, {pf, 7, 0, 0, ""},
			{ci, 1, 40, 0, ""}},
		"properties twice (V2-53)":     {{pf, 7, 0, 0, ""}, {pf, 8, 0, 0, "cont"}, {pm, 9, 0, 0, "cont"}, {ci, 1, 40, 0, ""}},
		"final ones, then more of it":  {{pm, 7, 0, 0, ""}, {pf, 7, 0, 0, ""}, {pm, 7, 0, 0, "cont"}, {ci, 1, 40, 0, ""}},
		"calls and replies are apart":  {{cm, 1, 3, 40, "cont"}, {ri, 1, 40, 0, ""}, {rm, 1, 40, 40, ""}, {ri, 1, 40, 0, ""}, {ci, 1, 40, 0, "drop"}},
		"a failed call twice, one end": {{cm, 1, 3, 40, "cont"}, {cm, 1, 3, 40, "drop"}, {ci, 1, 40, 0, "drop"}, {ci, 1, 40, 0, ""}},
	} {
		t.Run(name, func(t *testing.T) {
			s := Sequence{Most: 1000}
			for i, c := range script {
				if said := c.said(&s); said != c.want {
					t.Fatalf("message %d, %v of XID %d: %q, want %q", i, c.ht, c.xid, said, c.want)
				}
			}
		})
	}
}

// A Sequence remembers a few failed RPC messages, and forgets the oldest. An RPC message fails too if a part
// cannot be decoded, or if another message comes before the next part.
func TestSequenceForgets(t *testing.T) {
	s := Sequence{Most: 1000}
	part := func(xid uint32) Prefix2 { return Prefix2{XID: xid, Type: TypeCallMiddle} }
	for xid := range uint32(100) {
		if step := s.Admit(part(xid)); step != (Step{}) {
			t.Fatalf("XID %d: %+v", xid, step)
		}
		switch xid % 3 {
		case 0:
			s.Fail(part(xid)) // its header cannot be decoded
		case 1:
			s.Add(part(xid), 40, 40)
			if !s.Incomplete() || s.xid != xid || s.left != 40 {
				t.Fatalf("XID %d: %d, %d bytes to come, %v", xid, s.xid, s.left, s.Incomplete())
			}
			step := s.Admit(Prefix2{XID: 1000, Type: TypeCallInline})
			if !step.Refused() || !step.Interrupted || step.Reply || step.XID != xid || !step.Inform {
				t.Fatalf("XID %d: %+v", xid, step)
			}
		case 2:
			s.Add(part(xid), 3, 40)
		}
		if s.Incomplete() {
			t.Fatalf("XID %d: a failed message is still to come", xid)
		}
	}
	for xid := range uint32(100) {
		if step := s.Admit(part(xid)); step.Drop != (xid >= 96) {
			t.Errorf("XID %d: %+v", xid, step)
		}
	}
	if step := s.Admit(Prefix2{XID: 7, Type: TypeCallInline}); step != (Step{}) {
		t.Errorf("%+v", step)
	}
}

// A failed RPC message is forgotten if none of its parts comes for the time between two calls of Expire. Row V2-81 of
// docs/conformance.md.
func TestSequenceExpires(t *testing.T) {
	part, last := Prefix2{XID: 5, Type: TypeCallMiddle}, Prefix2{XID: 5, Type: TypeCallInline}
	for name, c := range map[string]struct {
		script string // f: the message fails; e: Expire; p: a part of it comes; x: an external call of its XID
		drop   bool
	}{
		"at once":                      {"f", true},
		"a message that has just come": {"fe", true},
		"after the time":               {"fee", false},
		"a part begins the time again": {"fepe", true},
		"after the last part":          {"fepee", false},
		"no part of it has come":       {"fexe", false},
		"an entry that was used":       {"feeefe", true},
		"never failed":                 {"eee", false},
	} {
		s := Sequence{Most: 1000}
		for _, what := range c.script {
			switch what {
			case 'f':
				s.Fail(part)
			case 'e':
				s.Expire()
			case 'p':
				s.Admit(part)
			case 'x':
				if step := s.Admit(Prefix2{XID: 5, Type: TypeCallExternal}); !step.Drop {
					t.Errorf("%s: an external call: %+v", name, step)
				}
			}
			if s.Failing() != s.drops(Prefix2{XID: 5, Type: TypeCallExternal}) {
				t.Errorf("%s: Failing is %v", name, s.Failing())
			}
		}
		if step := s.Admit(last); step.Drop != c.drop || step.Refused() != c.drop {
			t.Errorf("%s: %+v", name, step)
		}
	}
}
