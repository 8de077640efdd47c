package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss/krb5"
	"github.com/nfsrdmad/nfsrdmad/test/krb5realm"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// This file measures RPCSEC_GSS with Kerberos, in a realm of its own, and AUTH_SYS for comparison.

// The principals of the realm, and the encryption type of their keys. This type is the default of
// Linux clients and of MIT's KDC.
const (
	gssServer = "nfs/localhost"
	gssClient = "nfs/client.krb5.test"
	gssKeys   = "aes256-cts-hmac-sha1-96"
)

// Each goal is the share of AUTH_SYS's throughput that a service should reach.
var gssGoals = []struct {
	security export.Security
	goal     float64
}{{export.Krb5, 0.95}, {export.Krb5i, 0.6}, {export.Krb5p, 0.4}}

// kerberos creates a realm, and makes the server accept the realm's tickets. It returns the
// mechanism by which users create security contexts.
func (s *stage) kerberos(server *rpc.Server) (user *krb5.Mechanism, err error) {
	dir, err := os.MkdirTemp("", "figures")
	if err != nil {
		return nil, err
	}
	s.atEnd(func() { os.RemoveAll(dir) })
	realm, err := krb5realm.Start(krb5realm.Options{Dir: filepath.Join(dir, "realm")})
	if err != nil {
		return nil, err
	}
	s.atEnd(func() { realm.Stop() })
	keytab := filepath.Join(dir, "keytab")
	for _, name := range []string{gssServer, gssClient} {
		if err := realm.AddService(name, gssKeys); err != nil {
			return nil, err
		}
		if err := realm.Keytab(keytab, name); err != nil {
			return nil, err
		}
	}
	conf := filepath.Join(dir, "krb5.conf")
	if err := realm.ClientConf(conf, gssKeys); err != nil {
		return nil, err
	}
	acceptor := gss.New(gss.Config{
		Mechanisms: []gss.Mechanism{krb5.New(krb5.Config{Keytab: keytab})},
		Identify: func(string) (uid, gid uint32, groups []uint32, ok bool, err error) {
			return uint32(os.Getuid()), uint32(os.Getgid()), nil, true, nil
		},
	})
	s.atEnd(acceptor.Close)
	server.Protect(rpc.AuthGSS, acceptor)
	return krb5.New(krb5.Config{Conf: conf, Keytab: keytab, Principal: gssClient}), nil
}

// security returns the figures of READ and WRITE with each kind of security. It returns none if
// MIT's KDC is not installed. The realm is created when the first figure with Kerberos is measured.
func (s *stage) security(v *served, fh wire.FileHandle3) (all []figure) {
	if _, err := exec.LookPath(kdc); err != nil {
		fmt.Fprintln(os.Stderr, "figures: Kerberos is left out (Debian's krb5-kdc and krb5-admin-server have what it takes):", err)
		return nil
	}
	user := sync.OnceValues(func() (*krb5.Mechanism, error) { return s.kerberos(v.server) })
	for _, way := range []struct {
		name string
		k    rpc.Caller
	}{{"TCP", v.overTCP}, {"RDMA", v.overRDMA}} {
		for _, size := range []struct {
			name  string
			bytes int
		}{{"64 KiB", 64 << 10}, {"1 MiB", mib}} {
			for _, op := range []struct {
				name string
				run  func(*calls, wire.FileHandle3, int) func(int) error
			}{{"READ", (*calls).read}, {"WRITE", (*calls).write}} {
				base := fmt.Sprintf("%s %s over %s, sys", op.name, size.name, way.name)
				all = append(all, figure{base, size.bytes, "", 0, op.run(s.newCalls(way.k, depth), fh, size.bytes)})
				for _, g := range gssGoals {
					run := sync.OnceValues(func() (func(int) error, error) {
						k, err := s.under(g.security, way.k, user)
						if err != nil {
							return nil, err
						}
						return op.run(s.newCalls(k, depth), fh, size.bytes), nil
					})
					all = append(all, figure{fmt.Sprintf("%s %s over %s, %v", op.name, size.name, way.name, g.security), size.bytes, base, g.goal, func(n int) error {
						f, err := run()
						if err != nil {
							return err
						}
						return f(n)
					}})
				}
			}
		}
	}
	return all
}

// kdc is the path of MIT's KDC program.
const kdc = "/usr/sbin/krb5kdc"

// under returns a caller that makes calls over k with the given security.
func (s *stage) under(security export.Security, k rpc.Caller, user func() (*krb5.Mechanism, error)) (rpc.Caller, error) {
	mechanism, err := user()
	if err != nil {
		return nil, err
	}
	c, err := gss.NewClient(context.Background(), k, gss.ClientConfig{
		Mechanism: mechanism, Target: "nfs@localhost", Service: security.GSSService(), Program: wire.Program, Version: wire.Version,
	})
	if err != nil {
		return nil, err
	}
	s.atEnd(c.Close)
	return c, nil
}
