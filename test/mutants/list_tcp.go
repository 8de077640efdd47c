package main

// tcpMutants are those of transport/tcp.
var tcpMutants = []mutant{
	{"a connection keeps its ring while it waits", "transport/tcp/ring.go",
		`	rings.Put(r.ring)
	r.ring = nil
}

// step gives the ring back`,
		`	rings.Put(r.ring)
	r.stash = r.stash[:len(r.stash):len(r.stash)]
	r.stash = append(r.stash, make([]byte, ringSize)...)[:len(r.stash)]
	r.ring = nil
}

// step gives the ring back`,
		"transport/tcp", "TestIdleConnectionsAreSmall"},
}
