// Package fair decides who may have units of a limited resource, and who loses one if none is left.
//
// A resource has a number of units: bytes, contexts, opens, places. A Tree counts who holds them, at
// four levels:
//
//	the resource
//	  a site     an IPv4 /24, or an IPv6 /48 (clientaddr.Site)
//	    an address   an IPv4 address, or an IPv6 /64 (clientaddr.Of)
//	      a holder     a connection or a client, as the user of the package likes
//
// Strangers are peers that no export has served yet. Their sites are in a part of their own, which
// counts as a part of the resource (see below).
//
// # The rule
//
// Each site has an equal part of the resource, and one further part is for the next site. Within a
// site each address has an equal part of the site's part, and within an address each holder. A site,
// an address or a holder counts as long as it holds a unit or asks for one. Strangers together have
// an eighth of the resource.
//
// Free units go to those who ask for them (May):
//
//   - An asker is entitled to them if, after the grant, its holder, its address and its site are all
//     within their parts, or had nothing before.
//   - Another asker may borrow them if, after the grant, as many units are free as its address holds,
//     and at least an eighth of the resource. So an address that is alone can have half, and the last
//     eighth is always for those who are entitled.
//
// Some units cannot be taken back, such as the memory of calls that are under way. MayBorrow has the rule
// for these.
//
// If no unit is free for an asker, the user of the package takes single units back, from the holder
// that Victim returns:
//
//   - If the asker is within its part at a level, the loser at that level is the one that holds most,
//     and this one has more than its part. Within the loser, the same holds for its addresses, and
//     for their holders.
//   - If the asker is beyond its part at a level, it is the loser at that level itself. So a site
//     beyond its part can take from its own addresses only, and an address from its own holders.
//
// From this follows:
//
//   - A site, an address or a holder within its part loses no unit to others, but surplus units. Nor does a
//     site of known peers that holds no more than Tree.Floor. A Tree has a Floor if the part of a site can
//     become so small, because there are very many sites, that it is of no use.
//   - A site gains nothing by many addresses, nor an address by many holders, but what no other site,
//     or no other address, asks for.
//   - If the Tree has no Floor, a newcomer gets its first unit at once, or after one unit was taken back.
//     If it has one, and the floors of the sites use up the resource, a newcomer waits until a holder gives
//     a unit back.
//
// Some units may be worth less to their holder than others. A Node counts these as surplus. Victim
// takes them first: at each level it prefers those that have some.
//
// # What a Tree does not do
//
// A Tree has no lock: the lock of the resource guards it. It makes no callback and no system call. An
// operation visits the path of one holder, and at each level the logarithm of the number of siblings.
// A Tree allocates memory only when a site or an address comes that it did not have before.
//
// A Tree knows numbers only. Which unit a holder loses (its oldest reply, an open before a lock), and
// how, is the user's business. A Tree has no queue of those who wait for units that come back by
// themselves.
package fair

import (
	"net/netip"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
)

const (
	// strangersPart is a divisor: the part of all strangers together is Size/strangersPart.
	strangersPart = 8
	// spare is a divisor: an asker beyond its part leaves Size/spare free.
	spare = 8
	// Of what its siblings leave, a node may borrow lentParts parts, and leaves one for the next sibling.
	lentParts = 3
)

// A Tree counts the units of one resource. Its zero value with a Size is an empty Tree. Node.Of has
// the type T.
type Tree[T any] struct {
	// Size is the number of units. More may be held: Add counts, and refuses nothing.
	Size int64
	// Floor is the number of units that a site of known peers keeps when another site asks, although its part is
	// less. It may lose surplus units all the same. Floor does not count if more than Size units are held: see Victim.
	Floor int64

	// known.held does not include strangers.held.
	known, strangers group[T]
	idle             []*Node[T] // addresses that hold nothing, at most mostIdle
	steps            uint64     // calls of Add
	visited          int        // nodes that methods have visited, for the tests
}

// A group is the known peers or the strangers.
type group[T any] struct {
	Node[T]
	sites, addresses map[netip.Addr]*Node[T]
}

// mostIdle is the largest number of addresses without units that a Tree keeps. Only tests change it.
var mostIdle = 64

// A Node is a holder of units, or a site or an address that the Tree has made for its holders. It is
// in the Tree while it holds units. The user of the package sets the exported fields of a holder,
// before its first call of Add, and leaves them.
type Node[T any] struct {
	// Of is the user's record of the holder.
	Of T
	// Address is the holder's address. Any address of a client will do: see clientaddr.Of.
	Address netip.Addr

	stranger      bool
	held, surplus int64
	changed       uint64 // Tree.steps at the last change of held, to order equals
	up            *Node[T]
	at            int // index in up.children
	children      []*Node[T]

	// home is the Node of the address of a holder, and the site of an address.
	home *Node[T]
	// in is set for an address in the tables of a group.
	in     *group[T]
	idle   bool // it is in Tree.idle
	idleAt int  // its index there
	of     int  // the number of addresses of a site that are in the tables
}

// Held returns the number of units that n holds; 0 if n is nil.
func (n *Node[T]) Held() int64 {
	if n == nil {
		return 0
	}
	return n.held
}

// Surplus returns how many of the units that n holds are surplus.
func (n *Node[T]) Surplus() int64 { return n.surplus }

// Held returns the number of units that all holders have.
func (t *Tree[T]) Held() int64 { return t.known.held + t.strangers.held }

// Free returns the number of units that no holder has. It is negative if more than Size are held.
func (t *Tree[T]) Free() int64 { return t.Size - t.Held() }

// Surplus returns how many of the units are surplus.
func (t *Tree[T]) Surplus() int64 { return t.known.surplus + t.strangers.surplus }

// Sites and Addresses return how many sites and addresses hold units. Known peers and strangers of
// one site count as two.
func (t *Tree[T]) Sites() int { return len(t.known.children) + len(t.strangers.children) }
func (t *Tree[T]) Addresses() int {
	return len(t.known.addresses) + len(t.strangers.addresses) - len(t.idle)
}

// AddressHolds returns the number of units that all holders of an address have.
func (t *Tree[T]) AddressHolds(a netip.Addr) (held int64) {
	a = clientaddr.Of(a)
	for _, g := range [...]*group[T]{&t.known, &t.strangers} {
		if n := g.addresses[a]; n != nil {
			held += n.held
		}
	}
	return held
}

// SiteHolds returns the number of units that all holders of the site of an address have.
func (t *Tree[T]) SiteHolds(a netip.Addr) (held int64) {
	a = clientaddr.Site(clientaddr.Of(a))
	for _, g := range [...]*group[T]{&t.known, &t.strangers} {
		held += g.sites[a].Held()
	}
	return held
}

// First returns the holder at an address that is the first to lose a unit, or nil if none has any.
func (t *Tree[T]) First(a netip.Addr) *Node[T] {
	a = clientaddr.Of(a)
	for _, g := range [...]*group[T]{&t.strangers, &t.known} {
		if n := g.addresses[a]; n != nil && n.held > 0 {
			return n.children[0]
		}
	}
	return nil
}

func (t *Tree[T]) groupOf(n *Node[T]) *group[T] {
	if n.stranger {
		return &t.strangers
	}
	return &t.known
}

// SetStranger says whether the holder n is a stranger. All that it holds counts there from now on. A
// Node begins as a known peer.
func (t *Tree[T]) SetStranger(n *Node[T], is bool) {
	if n.stranger == is {
		return
	}
	held, surplus := n.held, n.surplus
	t.Add(n, -held, -surplus)
	n.stranger = is
	t.Add(n, held, surplus)
}
