// The statistics segment as GoVPP's own client reads it: 1,000 packets that come in on pg0 and lead nowhere are counted, by interface and by
// reason, and the system's figures move.
package main

import (
	"context"
	"strings"
	"time"

	"go.fd.io/govpp/adapter/statsclient"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/vlib"
	"go.fd.io/govpp/core"
)

const (
	packets = 1000
	size    = 100
	stream  = "packet-generator new { name stats limit 1000 rate 0 size 100-100 interface pg0 node ethernet-input data { " +
		"IP4: 0200.0000.0001 -> PGMAC UDP: 10.0.0.9 -> 203.0.113.9 UDP: 1 -> 2 incrementing 20 } }"
)

// Runs command lines and ends the program at the first that fails.
func cli(conn api.Connection, lines ...string) string {
	said := ""
	for _, line := range lines {
		reply, err := vlib.NewServiceClient(conn).CliInband(context.Background(), &vlib.CliInband{Cmd: line})
		if err != nil {
			must(err, line)
		}
		said = reply.Reply
	}
	return said
}

// Waits until something holds: counters are copied every few milliseconds.
func eventually(what string, holds func() (bool, any)) {
	end := time.Now().Add(20 * time.Second)
	for {
		ok, found := holds()
		if ok || time.Now().After(end) {
			check(ok, what, found)
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func stats(conn api.Connection, socket string) {
	client := statsclient.NewStatsClient(socket)
	c, err := core.ConnectStats(client)
	must(err, "stats connect")
	defer c.Disconnect()

	mac := macOf(conn, "pg0")
	cli(conn, "set interface state pg0 up", "set interface ip address pg0 10.0.0.1/24",
		strings.Replace(stream, "PGMAC", mac, 1), "packet-generator enable-stream stats")

	// One structure for all readings, as its users have it: the client fills it in again.
	interfaces := new(api.InterfaceStats)
	eventually("stats of interfaces", func() (bool, any) {
		if err := c.GetInterfaceStats(interfaces); err != nil {
			return false, err
		}
		for _, i := range interfaces.Interfaces {
			if i.InterfaceName == "pg0" {
				return i.InterfaceIndex == 1 && i.Rx.Packets == packets && i.Rx.Bytes == packets*size &&
					i.RxUnicast.Packets == packets && i.TxUnicast.Packets == 0 && i.Drops == packets, i
			}
		}
		return false, interfaces.Interfaces
	})

	errors := new(api.ErrorStats)
	eventually("stats of errors", func() (bool, any) {
		if err := c.GetErrorStats(errors); err != nil {
			return false, err
		}
		// Each is also answered with an ICMP error, as long as there is room for those; how many are sent is no matter here.
		sum := uint64(0)
		for _, e := range errors.Errors {
			for _, n := range e.Values {
				if e.CounterName == "/err/ip4-lookup/no_route" {
					sum += n
				}
			}
		}
		return sum == packets, errors.Errors
	})

	nodes := new(api.NodeStats)
	eventually("stats of nodes", func() (bool, any) {
		if err := c.GetNodeStats(nodes); err != nil {
			return false, err
		}
		for _, n := range nodes.Nodes {
			if n.NodeName == "ip4-lookup" {
				return n.Vectors >= packets && n.Calls > 0 && n.Clocks > 0, n
			}
		}
		return false, nodes.Nodes
	})

	system := new(api.SystemStats)
	must(c.GetSystemStats(system), "stats of the system, read")
	first := system.Heartbeat
	eventually("stats of the system", func() (bool, any) {
		if err := c.GetSystemStats(system); err != nil {
			return false, err
		}
		return system.NumWorkerThreads == 1 && system.LastUpdate > 0 && system.Heartbeat > first &&
			len(system.VectorRatePerWorker) > 0, system
	})

	buffers := new(api.BufferStats)
	must(c.GetBufferStats(buffers), "stats of buffers, read")
	free := 0.0
	for _, pool := range buffers.Buffer {
		free += pool.Available
	}
	check(free > 0, "stats of buffers", buffers)

	// A new interface changes the directory under the client's feet.
	cli(conn, "create loopback interface instance 77")
	eventually("stats of a new interface", func() (bool, any) {
		if err := c.GetInterfaceStats(interfaces); err != nil {
			return false, err
		}
		for _, i := range interfaces.Interfaces {
			if i.InterfaceName == "loop77" {
				return true, i
			}
		}
		return false, interfaces.Interfaces
	})
}
