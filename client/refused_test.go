package client_test

import (
	"context"
	"errors"
	"iter"
	"reflect"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/test/testserver"
)

// Each method that makes a call returns an error if the server refused the call, or if the
// connection is lost. The test finds the methods by reflection, so that it tests later additions
// as well.
func TestEveryCallTellsThatItFailed(t *testing.T) {
	s := testserver.Start(t)
	s.ServeNFS4(t, 0)
	c := testserver.Dial(t, s.Targets()["memory"])
	session, err := client.DialSession(testserver.Within(t), client.SessionConfig{Target: s.Targets()["memory"], Minor: 2})
	must(t, err)
	defer session.Close()
	each := func(what string, on any, least int, good func(err error) bool) {
		t.Helper()
		calls := 0
		for name, call := range callsOf(t, on) {
			calls++
			if err := call(); err == nil || !good(err) {
				t.Errorf("%s: %s ended with %v", what, name, err)
			}
		}
		if calls < least {
			t.Errorf("%s: %d calls were made", what, calls)
		}
	}
	refused := func(err error) bool {
		_, three := errors.AsType[*client.StatusError](err)
		return three || strings.Contains(err.Error(), "NFS4ERR_")
	}
	each("NFSv3, refused", c.NFS3(), 20, refused)
	each("NFSv4, refused", session.NFS4(), 15, refused)
	mounts := c.Mount3()
	c.Close()
	lost := func(err error) bool { return !refused(err) }
	each("NFSv3, without a connection", c.NFS3(), 20, lost)
	each("MOUNT, without a connection", mounts, 3, lost)
	must(t, session.Close())
	each("NFSv4, without a session", session.NFS4(), 15, lost)
}

// callsOf returns the methods of on that make calls. Each call has an invalid handle and
// plausible other arguments.
func callsOf(t *testing.T, on any) iter.Seq2[string, func() error] {
	return func(yield func(string, func() error) bool) {
		v := reflect.ValueOf(on)
		for i := range v.NumMethod() {
			m, name := v.Method(i), v.Type().Method(i).Name
			if m.Type().NumIn() == 0 || m.Type().In(0) != reflect.TypeFor[context.Context]() {
				continue // this method makes no call
			}
			args := []reflect.Value{reflect.ValueOf(testserver.Within(t))}
			for j := 1; j < m.Type().NumIn(); j++ {
				args = append(args, argument(m.Type().In(j)))
			}
			if !yield(name, func() error { return failure(m.Call(args)) }) {
				return
			}
		}
	}
}

// argument returns a plausible argument of type t, or an invalid handle.
func argument(t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	switch {
	case t == reflect.TypeFor[client.Handle]():
		v.SetBytes([]byte("no handle"))
	case t == reflect.TypeFor[client.Open4]():
		v.Set(reflect.ValueOf(client.Open4{Dir: client.Handle("no handle"), Name: "name", Owner: []byte("o"), Access: 1}))
	case t.Kind() == reflect.String:
		v.SetString("name")
	case t == reflect.TypeFor[[]byte]():
		v.SetBytes(make([]byte, 8))
	case t.Kind() == reflect.Struct && v.FieldByName("Length").IsValid():
		v.FieldByName("Length").SetUint(1)
	}
	return v
}

// failure returns the error of a call: its last result, or the first error of a listing.
func failure(results []reflect.Value) error {
	last := results[len(results)-1]
	if last.Kind() != reflect.Func {
		err, _ := last.Interface().(error)
		return err
	}
	for _, v := range last.Seq2() {
		err, _ := v.Interface().(error)
		return err
	}
	return nil
}
