package probe

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Print writes the report as text.
func (p *Report) Print(w io.Writer) {
	for i := range p.Transports {
		p.Transports[i].print(w)
	}
	if !p.Found(false) {
		return
	}
	fmt.Fprintln(w, "exports")
	switch {
	case p.ExportsFault != "":
		fmt.Fprintf(w, "  not listed: %s\n", shown(p.ExportsFault))
	case len(p.Exports) == 0:
		fmt.Fprintln(w, "  none that this client may see")
	}
	for _, e := range p.Exports {
		groups := "every client"
		if len(e.Groups) > 0 {
			groups = strings.Join(e.Groups, " ")
		}
		if len(e.Flavors) > 0 {
			groups += ", sec=" + joined(e.Flavors)
		}
		fmt.Fprintf(w, "  %-20s %s\n", shown(e.Path), shown(groups))
	}
	p.Mounting.print(w, p)
}

// shown makes a text, which may come from a peer, fit for one line of the report. It joins lines
// and escapes unprintable characters, so that the peer can neither move the cursor nor forge
// lines.
func shown(text string) string {
	text = strings.ReplaceAll(text, "\n", "; ")
	if !strings.ContainsFunc(text, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }) {
		return text
	}
	quoted := strconv.Quote(text)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

func (t *Listener) print(w io.Writer) {
	fmt.Fprintf(w, "%s %s\n", t.Transport, t.Address)
	line := func(what, format string, args ...any) {
		fmt.Fprintf(w, "  %-20s %s\n", what, shown(fmt.Sprintf(format, args...)))
	}
	if t.Fault != "" {
		fmt.Fprintf(w, "  %s\n", shown(t.Fault))
		if t.Detail != "" {
			line("detail", "%s", t.Detail)
		}
	}
	if t.Connect > 0 {
		line("connected in", "%v", t.Connect.Round(time.Microsecond))
	}
	if c := t.Carrier; c != nil {
		line("carried by", "%s, provider %s%s", c.Protocol, c.Provider, choose(c.Device != "", ", device "+c.Device, ""))
		for _, x := range c.Shortcomings {
			line("shortcoming", "%s", x)
		}
	}
	if d := t.IWARP; d != nil {
		line("MPA", "revision %d%s, CRC %s, markers %s", d.Revision, choose(d.Enhanced, " enhanced", ""), onOff(d.CRC), onOff(d.Markers))
		if d.PeerToPeer {
			line("ready to receive", "%s", d.RTR)
		}
		line("RDMA Reads", "server says IRD %s, ORD %s; agreed: %d by this side, %d by the server",
			depth(d.PeerIRD), depth(d.PeerORD), d.ORD, d.IRD)
	}
	if d := t.RPCRDMA; d != nil {
		line("RPC-over-RDMA", "%s", d.speaks())
		line("private data", "%s", choose(d.PrivateData, fmt.Sprintf("inline send %d, receive %d, remote invalidation %s",
			d.InlineSend, d.InlineReceive, onOff(d.RemoteInvalidation)), "none"))
		line("inline threshold", "calls %d, replies %d bytes", d.CallLimit, d.ReplyLimit)
		line("credits granted", "%d", d.Credits)
		if d.Version2 != nil {
			d.Version2.print(line)
		}
	}
	for _, p := range t.Programs {
		line(fmt.Sprintf("%s (%d)", p.Name, p.Number), "%s", p.describe())
	}
	if t.NFS {
		line("RPCSEC_GSS", "%s", choose(t.GSS, "known", "not known"))
	}
	switch x := t.Context; {
	case t.ContextFault != "":
		line("no context", "%s", t.ContextFault)
	case x != nil:
		line("context", "%v with %s as %s, %s", x.Flavor, x.Server, x.Client, x.EType)
		line("", "until %s; ticket in %v, made in %v, NULL under it in %v", x.Expiry.Local().Format(time.DateTime),
			x.Ticket.Round(time.Microsecond), x.Made.Round(time.Microsecond), x.Null.Round(time.Microsecond))
	}
	if t.NFS4 != nil {
		t.NFS4.print(line)
	}
	if r := t.RoundTrip; r != nil {
		line("round trip of NULL", "min %v, median %v, max %v (%d calls)", r.Min, r.Median, r.Max, r.Calls)
	}
	for _, n := range t.Notes {
		fmt.Fprintf(w, "  %s\n", shown(n))
	}
}

func (p *Program) describe() string {
	var b strings.Builder
	b.WriteString("versions")
	if len(p.Versions) == 0 {
		b.WriteString(" none")
	}
	for _, v := range p.Versions {
		if v != 4 || len(p.Minor) == 0 {
			fmt.Fprintf(&b, " %d", v)
			continue
		}
		for _, m := range p.Minor {
			fmt.Fprintf(&b, " 4.%d", m)
		}
	}
	if p.Unchecked {
		b.WriteString(" (answers NULL of any version)")
	}
	if p.High > 0 {
		fmt.Fprintf(&b, " (says %d to %d)", p.Low, p.High)
	}
	if p.Fault != "" {
		b.WriteString("; then: " + p.Fault)
	}
	return b.String()
}

func choose(b bool, yes, no string) string {
	if b {
		return yes
	}
	return no
}

func onOff(b bool) string { return choose(b, "on", "off") }

func depth(n int) string {
	if n < 0 {
		return "nothing"
	}
	return fmt.Sprint(n)
}
