package gss

import (
	"net/netip"
	"testing"
	"time"
)

// If one address makes 100,000 contexts, it has at most its share in the table, and another address
// keeps its contexts.
func TestTableUnderFlood(t *testing.T) {
	table := newTable(defaultContexts, defaultContexts/defaultShare, defaultContexts+1, time.Hour)
	now := time.Now()
	add := func(addr string) *serverContext {
		x := &serverContext{expiry: now.Add(time.Hour)}
		table.add(x, netip.MustParseAddr(addr), now)
		return x
	}
	other := add("192.0.2.1")
	for range 100_000 {
		add("192.0.2.2")
	}
	if table.find(other.handle[:]) != other {
		t.Error("another address lost its context")
	}
	if n := table.len(); n != 1+defaultContexts/defaultShare {
		t.Errorf("%d contexts are kept", n)
	}
	// Many addresses fill the table. It does not grow beyond its bound.
	var addr netip.Addr
	for i := range 100_000 {
		addr = netip.AddrFrom4([4]byte{198, byte(18 + i>>16), byte(i >> 8), byte(i)})
		table.add(&serverContext{expiry: now.Add(time.Hour)}, addr, now)
	}
	if count := table.len(); count != defaultContexts {
		t.Errorf("%d contexts", count)
	}
	// The site with the most contexts has lost contexts until no site had more, and within the site the
	// address with the most.
	flood := netip.MustParseAddr("192.0.2.2")
	if most := table.room.AddressHolds(flood); most > int64(defaultContexts/table.room.Sites()+1) {
		t.Errorf("an address has %d, and there are %d sites", most, table.room.Sites())
	}
	if table.find(other.handle[:]) != other {
		t.Error("an address with one context lost it")
	}
	if gone, left := table.sweep(now.Add(time.Hour)), table.len(); left != 0 || gone == 0 || table.room.Addresses() != 0 {
		t.Errorf("%d went, %d are left, of %d addresses", gone, left, table.room.Addresses())
	}
}

// If clients in many /64s of one /48 make contexts, a client of another site keeps those that it has within its
// part, although each of these addresses has fewer.
func TestContextsOfASiteWithManyAddresses(t *testing.T) {
	const size = 256
	table := newTable(size, size/4, size+1, time.Hour)
	now := time.Now()
	var kept []*serverContext
	for range size / 4 {
		kept = append(kept, &serverContext{expiry: now.Add(time.Hour)})
		table.add(kept[len(kept)-1], netip.MustParseAddr("192.0.2.1"), now)
	}
	network := netip.MustParseAddr("2001:db8::1").As16()
	for i := range 3000 {
		network[6], network[7] = byte(i>>8), byte(i)
		table.add(&serverContext{expiry: now.Add(time.Hour)}, netip.AddrFrom16(network), now)
	}
	for i, x := range kept {
		if table.find(x.handle[:]) != x {
			t.Fatalf("context %d was dropped", i)
		}
	}
	if n := table.len(); n != size {
		t.Errorf("%d contexts", n)
	}
}

// If a principal at many addresses makes more contexts than its share, it loses those that were
// idle for the longest time. Other principals lose none.
func TestOnePrincipalFromManyAddresses(t *testing.T) {
	table := newTable(64, 16, 16, time.Hour)
	now := time.Now()
	add := func(principal string, i int) *serverContext {
		x := &serverContext{principal: principal, expiry: now.Add(time.Hour)}
		table.add(x, netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), now)
		return x
	}
	var others []*serverContext
	for i := range 15 {
		others = append(others, add(string(rune('a'+i/8)), 200))
	}
	used := add("everywhere", 0)
	for i := range 200 {
		now = now.Add(time.Second)
		used.touch(now)
		last := add("everywhere", i)
		if table.find(last.handle[:]) != last || table.find(used.handle[:]) != used {
			t.Fatalf("context %d: it, or one that is in use, is not there", i)
		}
	}
	if n := len(table.principals["everywhere"]); n != 16 {
		t.Errorf("one principal has %d contexts", n)
	}
	for _, x := range others {
		if table.find(x.handle[:]) != x {
			t.Error("another principal lost a context")
		}
	}
	table.remove(used)
	if n := len(table.principals["everywhere"]); n != 15 {
		t.Errorf("it has %d contexts after one has ended", n)
	}
	if table.sweep(now.Add(time.Hour)); len(table.principals) != 0 {
		t.Errorf("%d principals are remembered", len(table.principals))
	}
}
