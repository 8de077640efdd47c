package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/client/relay"
)

func relayCommand() *cobra.Command {
	var (
		cfg             relay.Config
		listen, portmap []string
		verbose, share  bool
		connect         connectFlags
	)
	c := &cobra.Command{
		Use:   "relay --listen ADDR:PORT HOST[:PORT]",
		Short: "Let clients that speak only TCP reach an NFS/RDMA server",
		Long: `Take RPC calls over TCP and carry each over RDMA to the server at HOST (port 20049),
until SIGTERM or SIGINT. Credentials pass unchanged; RPCSEC_GSS cannot be carried.

The relay answers calls of rpcbind at each of its addresses, and names itself. Clients
that ask rpcbind need --rpcbind-listen :111. The relay passes calls of MOUNT to the
server's MOUNT service, which it finds itself, or to TCP port --mount-port.

The server sees the relay's address and a privileged port, and not those of clients.
So each client of the relay may do at the server what the relay may do.

With --sec, all clients act at the server as the relay's own principal, whatever
users they name. --share-principal confirms that you want this. Clients then need
privileged ports, unless --insecure is given. ` + securityHelp,
		Args: oneArgument("an NFS/RDMA server: HOST or HOST:PORT"),
		RunE: func(c *cobra.Command, args []string) error {
			var err error
			cfg.Target.Transport = client.RDMA
			if cfg.Target.Host, cfg.Target.Port, err = client.SplitHostPort(args[0]); err != nil {
				return usageError{err}
			}
			if len(listen) == 0 {
				return usageError{errors.New("--listen is missing: where clients are to connect, such as 127.0.0.1:2049")}
			}
			if cfg.Target.RDMAVersion, err = connect.rdmaVersion(c.Flags(), client.RDMA); err != nil {
				return err
			}
			if cfg.Target.Provider, cfg.Target.Security, err = connect.open(client.RDMA); err != nil {
				return err
			}
			cfg.MountPort = connect.mountPort
			switch secured := cfg.Target.Security != nil; {
			case secured && !share:
				return usageError{fmt.Errorf("--sec %s: all clients of the relay will act at the server as the relay's principal, whatever users they name: add --share-principal if you want this", connect.flavor)}
			case !secured && (share || cfg.Insecure):
				return usageError{errors.New("--share-principal and --insecure belong to --sec krb5, krb5i or krb5p")}
			}
			cfg.Event = reportTrouble()
			if verbose {
				cfg.Event = func(e relay.Event) {
					line := fmt.Sprintf("client=%s calls=%d", e.Client, e.Calls)
					if e.Err != nil {
						line += fmt.Sprintf(" error=%q", e.Err)
					}
					fmt.Fprintln(os.Stderr, line)
				}
			}
			return runRelay(cfg, listen, portmap)
		},
	}
	f := c.Flags()
	f.StringArrayVar(&listen, "listen", nil, "address to take calls on: ADDR:PORT or :PORT; repeatable")
	f.StringArrayVar(&portmap, "rpcbind-listen", nil, "address to answer calls of rpcbind on as well, such as :111; repeatable")
	connect.add(f)
	connect.addVersion(f)
	f.IntVar(&cfg.Calls, "calls", 128, "most calls in progress for each client")
	durationVar(f, &cfg.Timeout, "timeout", 30*time.Second, time.Millisecond, time.Hour, "how long connecting to the server may take, and how long a client may stall")
	f.BoolVar(&share, "share-principal", false, "with --sec: all clients act at the server as the relay's principal")
	f.BoolVar(&cfg.Insecure, "insecure", false, "with --sec: serve clients on ports above 1023 as well, which any user can have")
	f.BoolVar(&verbose, "verbose", false, "print a line for each client that leaves")
	return c
}

// troubleEvery is the shortest time between two lines of reportTrouble.
const troubleEvery = 10 * time.Second

// reportTrouble returns a relay.Config.Event that writes a line if the relay cannot make RPCSEC_GSS
// contexts with the server, at most once in troubleEvery.
func reportTrouble() func(relay.Event) {
	var mu sync.Mutex
	var last time.Time
	return func(e relay.Event) {
		if !client.NoContext(e.Err) {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if time.Since(last) >= troubleEvery {
			last = time.Now()
			fmt.Fprintln(os.Stderr, "clients are not served:", e.Err)
		}
	}
}

func runRelay(cfg relay.Config, listen, portmap []string) error {
	ctx, stop := untilSignal()
	defer stop()
	var listeners []net.Listener
	defer func() {
		for _, l := range listeners {
			l.Close()
		}
	}()
	for _, a := range append(listen, portmap...) {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", a)
		if err != nil {
			return err
		}
		listeners = append(listeners, l)
	}
	cfg.Port = listeners[0].Addr().(*net.TCPAddr).Port
	r, err := relay.New(cfg)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := r.Check(ctx); err != nil {
		return fmt.Errorf("server %s: %w; 'nfsrdmad probe' says more", cfg.Target.Address(), err)
	}
	ended := make(chan error, len(listeners))
	for _, l := range listeners {
		fmt.Fprintf(os.Stderr, "relaying %s to %s\n", l.Addr(), cfg.Target.Address())
		go func() { ended <- r.Serve(l) }()
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-ended:
		return err
	}
}
