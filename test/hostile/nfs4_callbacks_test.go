//go:build hostile

package hostile

import "testing"

// Clients that make the daemon test their backchannel again and again, and do not answer, do not
// fill the daemon's memory.
func TestClientsThatDoNotAnswer(t *testing.T) {
	for _, b := range []PingedClients{
		{Peers: 4, Transport: "rdma", Calls: 20_000},
		{Peers: 4, Transport: "tcp", Anew: true, Calls: 1_000},
	} {
		t.Run(b.Transport, func(t *testing.T) {
			s := stage(t, Config{})
			s.Sessions()
			s.Attack(b, Strangers(4))
			s.Judge()
		})
	}
}

// Clients that do not answer CB_NOTIFY_LOCK, or answer it in a wrong way, do not harm the daemon
// or other clients.
func TestAnswersToCallbacks(t *testing.T) {
	files := 2 * len(Transports) * len(Answers)
	s := stage(t, Config{Files: files})
	s.Held = s.Ceiling
	s.Sessions()
	all := s.lookUp(emptyNames(files)(0))
	for _, transport := range Transports {
		for _, a := range Answers {
			s.Attack(Waiters{Peers: 2, Owners: 20, Transport: transport, Files: all[:2], Answer: a}, Strangers(8))
			all = all[2:]
		}
	}
	s.JudgeFaults()
	s.Judge()
}

// Clients of NFSv4.0 that do not answer their callbacks use few of the daemon's descriptors, and
// the daemon connects to no address but the clients' own.
func TestCallbackAddresses(t *testing.T) {
	const peers = 4
	s := stage(t, Config{Descriptors: 600})
	s.Sessions()
	silent := &SilentListeners{}
	defer silent.Close()
	if err := silent.Listen(peers, Strangers(peers)); err != nil {
		t.Fatal(err)
	}
	s.Attack(Callbacks40{Peers: peers, Clients: 800, Silent: silent}, Strangers(peers))
	s.JudgeClients()
	if n := silent.Strays.Load(); n > 0 {
		t.Errorf("%d connections to another machine", n)
	}
	// The daemon may use one in 64 of its descriptors for callbacks.
	if n := silent.Most.Load(); n == 0 || n > 600/64 {
		t.Errorf("%d connections for callbacks at a time", n)
	}
	s.JudgeMemory()
	s.JudgeEnd()
}
