package config

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// A Note says what the conversion of a line of /etc/exports ignored, replaced or left out.
type Note struct {
	Line int
	Text string
	// Refused is true if a client, or the export, cannot be served as the file says, and is left out.
	Refused bool
}

// A Converted is an export of a file in the form of /etc/exports (exports(5)), in the form of this server.
type Converted struct {
	Line          int
	Path, Options string // Options is in the form of ExportOptions
	Notes         []Note
	// Refused is true if the export cannot be served. Options is then empty.
	Refused bool
}

// ConvertExports converts the text of a file in the form of /etc/exports. Each option is mapped, or there is a
// Note: that it is ignored, or that what it restricts cannot be restricted here, so that a client or the export
// is left out. The function lookup returns the addresses of a host name; it may block.
func ConvertExports(text string, lookup func(host string) ([]netip.Addr, error)) (all []Converted) {
	for _, l := range exportLines(text) {
		c := Converted{Line: l.number}
		words := exportWords(l.text)
		if len(words) == 0 {
			continue
		}
		c.Path = words[0]
		if !path.IsAbs(c.Path) {
			c.refuse("%s is no absolute path: write the whole path", c.Path)
			all = append(all, c)
			continue
		}
		c.convert(words[1:], lookup)
		all = append(all, c)
	}
	return all
}

func (c *Converted) note(refused bool, format string, args ...any) {
	c.Notes = append(c.Notes, Note{c.Line, fmt.Sprintf(format, args...), refused})
}

func (c *Converted) refuse(format string, args ...any) {
	c.note(true, format, args...)
	c.Refused, c.Options = true, ""
}

// An exportedTo is one client of a line, with its options.
type exportedTo struct {
	networks []string // nil for every client
	options  string   // without sec=
	sec      string
}

// convert converts the clients of a line.
func (c *Converted) convert(words []string, lookup func(string) ([]netip.Addr, error)) {
	defaults := ""
	var all []exportedTo
	for i, word := range words {
		if given, ok := strings.CutPrefix(word, "-"); ok {
			defaults = given
			continue
		}
		host, options, _ := strings.Cut(word, "(")
		options = strings.TrimSuffix(options, ")")
		if host == "" && i > 0 && !strings.HasPrefix(words[i-1], "-") {
			c.note(true, "a blank before (%s) gives these options to every client, which is rarely meant: they are left out; remove the blank", options)
			continue
		}
		to, ok := c.client(host, lookup)
		if !ok {
			continue
		}
		if to.options, to.sec, ok = c.options(strings.Trim(defaults+","+options, ","), to.sec); ok {
			all = append(all, to)
		}
	}
	if len(words) == 0 || len(all) == 0 && len(c.Notes) == 0 {
		c.note(false, "no client is named, so every client is served, read-only")
		all = append(all, exportedTo{options: "ro,sync,root_squash,secure", sec: "sys"})
	}
	c.join(all)
}

// join makes the options of the export from those of its clients.
func (c *Converted) join(all []exportedTo) {
	if len(all) == 0 {
		c.refuse("%s is left out, because none of its clients can be served as the file says", c.Path)
		return
	}
	for _, to := range all {
		if to.options != all[0].options {
			c.refuse("%s is left out, because its clients have different options (%s and %s), and an export has one set of options here: write two [[export]] with names of their own", c.Path, all[0].options, to.options)
			return
		}
	}
	general := max(slices.IndexFunc(all, func(to exportedTo) bool { return to.networks == nil }), 0)
	words := []string{all[0].options, "sec=" + all[general].sec}
	var clients []string
	for _, to := range all {
		switch {
		case to.sec == all[general].sec:
		case to.networks == nil:
			words[1] += ":" + to.sec
		default:
			words = append(words, "sec="+to.sec+"@"+strings.Join(to.networks, ","))
		}
		clients = append(clients, to.networks...)
	}
	if all[general].networks != nil {
		words = append(words, "clients="+strings.Join(slices.Compact(clients), ","))
	}
	c.Options = strings.Join(words, ",")
	var o ExportOptions
	if err := o.UnmarshalText([]byte(c.Options)); err != nil {
		c.refuse("%s is left out: %v", c.Path, err)
	}
}

// client returns the networks of a client.
func (c *Converted) client(host string, lookup func(string) ([]netip.Addr, error)) (to exportedTo, ok bool) {
	to.sec = "sys"
	switch flavor, krb5 := strings.CutPrefix(host, "gss/"); {
	case host == "" || host == "*":
		return to, true
	case krb5:
		to.sec = flavor
		return to, true
	case strings.HasPrefix(host, "@"):
		c.note(true, "%s is left out: netgroups are not looked up: name the networks", host)
		return to, false
	}
	if p, err := ParseNetwork(host); err == nil {
		to.networks = []string{p.String()}
		return to, true
	} else if p, ok := maskedNetwork(host); ok {
		to.networks = []string{p.String()}
		return to, true
	} else if strings.Trim(host, "0123456789abcdefABCDEF.:/") == "" && strings.ContainsAny(host, ":/") {
		c.note(true, "%s is left out: %v", host, err)
		return to, false
	}
	if strings.ContainsAny(host, "*?[") {
		c.note(true, "%s is left out: names with wildcards are not looked up: name the networks", host)
		return to, false
	}
	addresses, err := lookup(host)
	if err != nil || len(addresses) == 0 {
		c.note(true, "%s is left out: its address cannot be looked up (%v)", host, err)
		return to, false
	}
	for _, a := range addresses {
		to.networks = append(to.networks, a.Unmap().String())
	}
	c.note(false, "%s is %s now: if its address changes, change clients=", host, strings.Join(to.networks, ", "))
	return to, true
}

// options converts the options of one client. Those of exports(5) are ro,sync,root_squash,secure unless given.
func (c *Converted) options(given, sec string) (options, flavors string, ok bool) {
	chosen := map[string]string{"changes": "ro", "durability": "sync", "identity": "root_squash", "ports": "secure"}
	order := []string{"changes", "durability", "identity", "ports"}
	for _, word := range strings.FieldsFunc(given, func(r rune) bool { return r == ',' }) {
		name, value, _ := strings.Cut(word, "=")
		foreign := linuxOption(name)
		option := findOption(name)
		switch {
		case name == "sec":
			sec = value
		case word == "fsid=root":
			word = "fsid=0"
			fallthrough
		case option != nil && (name != "fsid" || word == "fsid=0"):
			if _, found := chosen[option.about]; !found {
				order = append(order, option.about)
			}
			chosen[option.about] = word
		case foreign != nil && word == "xprtsec=none":
		case foreign != nil && !foreign.refused:
			c.note(false, "%s is ignored: %s", word, strings.TrimSuffix(foreign.why, ": leave the option out"))
		case foreign != nil:
			c.note(true, "%s cannot be kept, and its client is left out: %s", word, foreign.why)
			return "", "", false
		default:
			c.note(true, "%s is not known, and its client is left out", word)
			return "", "", false
		}
	}
	var words []string
	for _, about := range order {
		words = append(words, chosen[about])
	}
	return strings.Join(words, ","), sec, true
}

// LookupHost returns the addresses of a host name, for ConvertExports.
func LookupHost(host string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// readEtcExports adds the exports of a file in the form of /etc/exports. What is refused is an error.
func (c *Config) readEtcExports(file string) (faults []error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return []error{&Error{File: "--exports " + file, Err: fmt.Errorf("cannot read the file: %w; for a directory write --export", Cause(err))}}
	}
	for _, one := range ConvertExports(string(b), LookupHost) {
		for _, n := range one.Notes {
			if n.Refused {
				faults = append(faults, &Error{File: file, Line: n.Line, Err: errors.New(n.Text)})
			} else {
				c.notes = append(c.notes, Note{Line: n.Line, Text: fmt.Sprintf("%s:%d: %s", file, n.Line, n.Text)})
			}
		}
		if one.Refused {
			continue
		}
		var e Export
		if err := cmp.Or(e.Path.UnmarshalText([]byte(one.Path)), e.Options.UnmarshalText([]byte(one.Options))); err != nil {
			faults = append(faults, &Error{File: file, Line: one.Line, Err: err})
			continue
		}
		c.origin[ExportKey(len(c.Exports))] = Error{File: file, Line: one.Line}
		c.Exports = append(c.Exports, e)
	}
	return faults
}
