package server

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/server/admin"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A peer is what is known of one network of clients (clientaddr.Network) by its connections and its MOUNTs.
type peer struct {
	address                 string
	connections             int
	over, versions, flavors []string
	mounts                  []string
	principal, machine      string
	heard                   time.Time
	version3, shown         bool
}

// peers returns the peers that are connected or have mounted, by clientaddr.Of. Their number is bounded by those of the
// connections and of the mounts that package mount3 remembers.
func (a *administration) peers() map[netip.Addr]*peer {
	all := make(map[netip.Addr]*peer)
	at := func(from netip.Addr) *peer {
		key := clientaddr.Of(from)
		p := all[key]
		if p == nil {
			p = &peer{address: addressText(from)}
			all[key] = p
		}
		return p
	}
	for _, c := range a.rpc.Conns() {
		p := at(c.Peer.Addr())
		p.add(&c)
	}
	if a.mount != nil {
		for _, m := range a.mount.Mounts() {
			from, err := netip.ParseAddr(m.Host)
			if err != nil {
				continue
			}
			p := at(from)
			p.version3 = true
			if path := plainPath(m.Path); !slices.Contains(p.mounts, path) {
				p.mounts = append(p.mounts, path)
			}
		}
	}
	return all
}

// addressText returns an address as lists show it: of an IPv6 client its network.
func addressText(a netip.Addr) string {
	if n := clientaddr.Network(a); !n.IsSingleIP() {
		return n.String()
	}
	return a.Unmap().String()
}

func (p *peer) add(c *rpc.ConnInfo) {
	p.connections++
	p.over = with(p.over, c.Transport)
	if c.Heard.After(p.heard) {
		p.heard = c.Heard
	}
	for _, f := range c.Flavors {
		if f != "none" || len(c.Flavors) == 1 {
			p.flavors = with(p.flavors, f)
		}
	}
	for _, of := range c.Programs {
		switch {
		case of == [2]uint32{nfs3wire.Program, nfs3wire.Version}:
			p.version3 = true
			p.versions = with(p.versions, "3")
		case of == [2]uint32{nfs4wire.Program, nfs4wire.Version} && len(c.Noted) == 0:
			p.versions = with(p.versions, "4") // only NULL
		case of[0] == mount3wire.Program:
			p.version3 = true
		}
	}
	for _, minor := range c.Noted {
		p.versions = with(p.versions, fmt.Sprint("4.", minor))
	}
	if p.principal == "" {
		p.principal = c.Principal
	}
	if p.machine == "" {
		p.machine = c.Machine
	}
}

// with returns a sorted list with one more element, unless it has that already.
func with(all []string, more string) []string {
	at, there := slices.BinarySearchFunc(all, more, strings.Compare)
	if there {
		return all
	}
	return slices.Insert(all, at, more)
}

// addTo adds what is known of the peer of a client to its description.
func (p *peer) addTo(c *admin.Client) {
	p.shown = true
	c.Connections, c.Over, c.Versions, c.Flavors = p.connections, p.over, p.versions, p.flavors
}

// describe returns the description of a peer for itself.
func (p *peer) describe() *admin.Client {
	c := &admin.Client{Kind: "none", Address: p.address, Name: plain(p.machine), Principal: plain(p.principal), Seen: p.heard, Mounts: p.mounts, Confirmed: true}
	if p.version3 {
		c.Kind = "3"
	}
	p.addTo(c)
	return c
}
