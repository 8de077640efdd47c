package krb5realm

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// ETypes are the encryption types of a realm, by their names in krb5.conf, in the order that
// MIT's library prefers.
var ETypes = []string{
	"aes256-cts-hmac-sha1-96", "aes128-cts-hmac-sha1-96", "aes256-cts-hmac-sha384-192", "aes128-cts-hmac-sha256-128",
}

// Options are the properties of a realm.
type Options struct {
	// Name is the realm's name; "" means KRB5.TEST. Its hosts are in the domain of the same name
	// in lower case.
	Name string
	// Dir is the directory of all files. Start creates it if it does not exist. Only this realm
	// may use it. Stop does not remove it.
	Dir string
	// Address is the address on which the KDC listens; "" means 127.0.0.1.
	Address string
	// Lifetime is the lifetime of tickets; 0 means ten hours.
	Lifetime time.Duration
}

func (o *Options) defaults() {
	if o.Name == "" {
		o.Name = "KRB5.TEST"
	}
	if o.Address == "" {
		o.Address = "127.0.0.1"
	}
	if o.Lifetime == 0 {
		o.Lifetime = 10 * time.Hour
	}
}

// A Realm is a Kerberos realm. Its KDC runs, unless Make created the realm.
type Realm struct {
	Options
	// Port is the KDC's port, for UDP and TCP.
	Port int
	// Conf is the path of a krb5.conf for clients and servers of the realm.
	Conf string

	known []*Realm // other realms in Conf
	kdc   *exec.Cmd
	ended chan error // gets a value when the KDC has ended
}

// Start creates a realm and starts its KDC. Stop stops the KDC.
func Start(o Options) (*Realm, error) {
	o.defaults()
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, err
	}
	r := &Realm{Options: o, Conf: filepath.Join(o.Dir, "krb5.conf")}
	var err error
	// Another process may take the port between the check for a free port and the KDC's start, so
	// Start tries up to five ports.
	for range 5 {
		if err = r.start(); err == nil {
			return r, nil
		}
	}
	return nil, err
}

func (r *Realm) start() (err error) {
	if r.Port, err = freePort(r.Address); err != nil {
		return err
	}
	if err := r.make(); err != nil {
		return err
	}
	return r.startKDC()
}

// Make creates a realm without starting its KDC. The caller runs KDCCommand, in another network
// namespace of this machine that has the address o.Address. Start and Stop are not for such a
// realm.
func Make(o Options, port int) (*Realm, error) {
	o.defaults()
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, err
	}
	r := &Realm{Options: o, Port: port, Conf: filepath.Join(o.Dir, "krb5.conf")}
	return r, r.make()
}

// make writes the configuration files, and creates the database if there is none.
func (r *Realm) make() error {
	if err := r.writeFiles(); err != nil {
		return err
	}
	if _, err := os.Stat(r.path("principal")); errors.Is(err, os.ErrNotExist) {
		return r.run("/usr/sbin/kdb5_util", "create", "-r", r.Name, "-s", "-P", "master")
	}
	return nil
}

// KDCCommand returns the command that runs the KDC, which ends on SIGTERM. The command needs no
// environment.
func (r *Realm) KDCCommand() []string {
	return append([]string{"/usr/bin/env", "KRB5_CONFIG=" + r.Conf, "KRB5_KDC_PROFILE=" + r.path("kdc.conf")}, r.kdcProgram()...)
}

func (r *Realm) kdcProgram() []string {
	return []string{"/usr/sbin/krb5kdc", "-n", "-r", r.Name, "-P", r.path("kdc.pid")}
}

// New starts a realm for one test and stops it at the end. If o.Dir is "", the realm gets a
// temporary directory of the test. If the packages are missing, the test fails.
func New(t testing.TB, o Options) *Realm {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	r, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Stop(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// freePort returns a port on which nothing listens, neither by UDP nor by TCP.
func freePort(address string) (int, error) {
	for range 20 {
		l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
		if err != nil {
			return 0, err
		}
		port := l.Addr().(*net.TCPAddr).Port
		u, err := net.ListenPacket("udp", l.Addr().String())
		l.Close()
		if err == nil {
			u.Close()
			return port, nil
		}
	}
	return 0, fmt.Errorf("no port on %s is free for UDP and TCP", address)
}

func (r *Realm) path(name string) string { return filepath.Join(r.Dir, name) }

// KDC returns the address and the port of the KDC.
func (r *Realm) KDC() string { return net.JoinHostPort(r.Address, fmt.Sprint(r.Port)) }

// Domain returns the domain of the realm's hosts.
func (r *Realm) Domain() string { return strings.ToLower(r.Name) }

// Environment returns an environment with which MIT's programs use the realm.
func (r *Realm) Environment() []string {
	return append(os.Environ(),
		"KRB5_CONFIG="+r.Conf, "KRB5_KDC_PROFILE="+r.path("kdc.conf"),
		"KRB5CCNAME=FILE:"+r.path("ccache"), "KRB5_KTNAME=FILE:"+r.path("keytab"), "KRB5_CLIENT_KTNAME=FILE:"+r.path("keytab"),
		"KRB5RCACHENAME=file2:"+r.path("rcache"))
}

// startKDC starts the KDC. It returns when the KDC accepts connections.
func (r *Realm) startKDC() error {
	log, err := os.Create(r.path("kdc.out"))
	if err != nil {
		return err
	}
	defer log.Close()
	program := r.kdcProgram()
	r.kdc = exec.Command(program[0], program[1:]...)
	r.kdc.Env, r.kdc.Stdout, r.kdc.Stderr = r.Environment(), log, log
	r.kdc.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	r.ended = make(chan error, 1)
	go tend(r.kdc, started, r.ended)
	if err := <-started; err != nil {
		return fmt.Errorf("starting the KDC: %w", err)
	}
	return r.awaitKDC()
}

// tend starts a command, and sends the error of the start to the channel started. If there is none,
// tend waits until the command has ended, and sends the result to ended. Because of Pdeathsig, the
// kernel kills the command when the thread that started it ends. Until the command has ended, this
// thread runs only tend, so it ends only if the whole process ends. So the command never outlives
// this process.
func tend(c *exec.Cmd, started, ended chan<- error) {
	runtime.LockOSThread()
	err := c.Start()
	started <- err
	if err == nil {
		ended <- c.Wait()
	}
}

// startLimit is the longest time that the KDC may take to start.
const startLimit = 30 * time.Second

func (r *Realm) awaitKDC() error {
	for end := time.Now().Add(startLimit); time.Now().Before(end); {
		c, err := net.Dial("tcp", r.KDC())
		if err == nil {
			return c.Close()
		}
		select {
		case err := <-r.ended:
			out, _ := os.ReadFile(r.path("kdc.out"))
			return fmt.Errorf("the KDC ended: %v: %s", err, out)
		case <-time.After(5 * time.Millisecond):
		}
	}
	return errors.Join(fmt.Errorf("the KDC does not listen on %s after %v", r.KDC(), startLimit), r.Stop())
}

// Stop kills the KDC. The files remain.
func (r *Realm) Stop() error {
	if err := r.kdc.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-r.ended
	return nil
}

// run runs one of MIT's programs in the realm.
func (r *Realm) run(name string, args ...string) error {
	return r.runWith(nil, "", name, args...)
}

func (r *Realm) runWith(env []string, input, name string, args ...string) error {
	c := exec.Command(name, args...)
	c.Env = append(r.Environment(), env...)
	c.Stdin = strings.NewReader(input)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Run(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out.Bytes())
	}
	return nil
}
