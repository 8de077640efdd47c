package krb5_test

import (
	"fmt"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss/krb5"
)

// A server accepts a client's token and so gets a context. If a message's checksum is correct under
// that context, the message comes from that client.
func Example() {
	server := krb5.New(krb5.Config{Keytab: "/nonexistent/krb5.keytab"})
	if err := server.Check(); err != nil {
		fmt.Println(err)
	}

	greet := func(token, message, mic []byte) (reply []byte, err error) {
		c, reply, err := server.Accept(token, time.Now())
		if err != nil {
			return reply, err
		}
		if err := c.VerifyMIC(mic, message); err != nil {
			return nil, err
		}
		fmt.Printf("%s says %s\n", c.Principal(), message)
		return reply, nil
	}
	_, err := greet([]byte("not a token"), nil, nil)
	fmt.Println(err.(*gss.Error).Major)
	// Output:
	// reading the keytab: open /nonexistent/krb5.keytab: no such file or directory
	// defective token
}
