// A client of GoVPP as it is: connects, lists interfaces, puts routes in and reads them back, waits for an event, and lives through
// health checks. Prints one line for each step that worked; ends with status 1 at the first that did not.
//
//	govpp-client SOCKET STATS-SOCKET [hold-seconds]
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"go.fd.io/govpp"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/fib_types"
	interfaces "go.fd.io/govpp/binapi/interface"
	"go.fd.io/govpp/binapi/interface_types"
	"go.fd.io/govpp/binapi/ip"
	"go.fd.io/govpp/binapi/ip_types"
	"go.fd.io/govpp/binapi/sflow"
	"go.fd.io/govpp/binapi/vlib"
	"go.fd.io/govpp/binapi/vpe"
	"go.fd.io/govpp/core"
)

func must(err error, what string) {
	if err != nil {
		fmt.Printf("FAILED %s: %v\n", what, err)
		os.Exit(1)
	}
	fmt.Println("ok", what)
}

func check(ok bool, what string, found any) {
	if !ok {
		fmt.Printf("FAILED %s: %+v\n", what, found)
		os.Exit(1)
	}
	fmt.Println("ok", what)
}

func main() {
	conn, events, err := govpp.AsyncConnect(os.Args[1], 3, time.Second)
	must(err, "connect")
	e := <-events
	check(e.State == core.Connected, "connected", e)
	defer conn.Disconnect()
	ctx := context.Background()

	version, err := vpe.NewServiceClient(conn).ShowVersion(ctx, &vpe.ShowVersion{})
	must(err, "show_version")
	check(version.Program == "vpe", "version", version)

	ifs := interfaces.NewServiceClient(conn)
	dump := func() map[string]interfaces.SwInterfaceDetails {
		stream, err := ifs.SwInterfaceDump(ctx, &interfaces.SwInterfaceDump{SwIfIndex: ^interface_types.InterfaceIndex(0)})
		if err != nil {
			must(err, "sw_interface_dump")
		}
		all := map[string]interfaces.SwInterfaceDetails{}
		for {
			d, err := stream.Recv()
			if err == io.EOF {
				return all
			}
			if err != nil {
				must(err, "sw_interface_details")
			}
			all[d.InterfaceName] = *d
		}
	}
	loop, err := ifs.CreateLoopback(ctx, &interfaces.CreateLoopback{})
	must(err, "create_loopback")
	all := dump()
	check(all["loop0"].SwIfIndex == loop.SwIfIndex, "interface dump", all)

	watch(conn, ifs, loop.SwIfIndex)
	check(dump()["loop0"].Flags&interface_types.IF_STATUS_API_FLAG_ADMIN_UP != 0, "loop0 is up", dump())

	address, _ := ip_types.ParseAddressWithPrefix("10.9.0.1/24")
	_, err = ifs.SwInterfaceAddDelAddress(ctx, &interfaces.SwInterfaceAddDelAddress{SwIfIndex: loop.SwIfIndex, IsAdd: true, Prefix: address})
	must(err, "sw_interface_add_del_address")
	routes(ctx, conn, uint32(loop.SwIfIndex))

	_, err = sflow.NewServiceClient(conn).SflowSamplingRateSet(ctx, &sflow.SflowSamplingRateSet{SamplingN: 123})
	must(err, "sflow_sampling_rate_set")
	rate, err := sflow.NewServiceClient(conn).SflowSamplingRateGet(ctx, &sflow.SflowSamplingRateGet{})
	must(err, "sflow_sampling_rate_get")
	check(rate.SamplingN == 123, "sampling rate", rate)

	cli, err := vlib.NewServiceClient(conn).CliInband(ctx, &vlib.CliInband{Cmd: "show interface"})
	must(err, "cli_inband")
	check(len(cli.Reply) > 0, "cli text", cli)

	stats(conn, os.Args[2])

	// The library pings each second and gives up after three misses.
	hold, _ := strconv.Atoi(append(os.Args, "4")[3])
	select {
	case e := <-events:
		check(false, "health", e)
	case <-time.After(time.Duration(hold) * time.Second):
		fmt.Println("ok health")
	}
}

// Waits for the event of an interface that is brought up.
func watch(conn *core.Connection, ifs interfaces.RPCService, index interface_types.InterfaceIndex) {
	ctx := context.Background()
	watcher, err := conn.WatchEvent(ctx, &interfaces.SwInterfaceEvent{})
	must(err, "watch events")
	defer watcher.Close()
	_, err = ifs.WantInterfaceEvents(ctx, &interfaces.WantInterfaceEvents{PID: uint32(os.Getpid()), EnableDisable: 1})
	must(err, "want_interface_events")
	// The first look of the router has to come before the change.
	time.Sleep(500 * time.Millisecond)
	_, err = ifs.SwInterfaceSetFlags(ctx, &interfaces.SwInterfaceSetFlags{SwIfIndex: index, Flags: interface_types.IF_STATUS_API_FLAG_ADMIN_UP})
	must(err, "sw_interface_set_flags")
	select {
	case m := <-watcher.Events():
		e, ok := m.(*interfaces.SwInterfaceEvent)
		check(ok && e.SwIfIndex == index && e.Flags&interface_types.IF_STATUS_API_FLAG_ADMIN_UP != 0, "event", m)
	case <-time.After(10 * time.Second):
		check(false, "event", "none came")
	}
}

// The Ethernet address of an interface, as packet generators take it.
func macOf(conn api.Connection, name string) string {
	stream, err := interfaces.NewServiceClient(conn).SwInterfaceDump(context.Background(),
		&interfaces.SwInterfaceDump{SwIfIndex: ^interface_types.InterfaceIndex(0)})
	must(err, "sw_interface_dump")
	for {
		d, err := stream.Recv()
		if err == io.EOF {
			check(false, "interface "+name, "is not there")
		}
		must(err, "sw_interface_details")
		if d.InterfaceName == name {
			return d.L2Address.String()
		}
	}
}

func routes(ctx context.Context, conn api.Connection, index uint32) {
	rpc := ip.NewServiceClient(conn)
	hop, _ := ip_types.ParseIP4Address("10.9.0.2")
	prefix, _ := ip_types.ParsePrefix("198.51.100.0/24")
	route := ip.IPRoute{
		Prefix: prefix,
		Paths: []fib_types.FibPath{{
			SwIfIndex: index,
			Weight:    1,
			Proto:     fib_types.FIB_API_PATH_NH_PROTO_IP4,
			Nh:        fib_types.FibPathNh{Address: ip_types.AddressUnionIP4(hop)},
		}},
	}
	find := func() int {
		stream, err := rpc.IPRouteDump(ctx, &ip.IPRouteDump{})
		if err != nil {
			must(err, "ip_route_dump")
		}
		found := 0
		for {
			d, err := stream.Recv()
			if err == io.EOF {
				return found
			}
			if err != nil {
				must(err, "ip_route_details")
			}
			if d.Route.Prefix.String() == "198.51.100.0/24" && d.Route.Paths[0].Nh.Address.GetIP4() == hop {
				found++
			}
		}
	}
	_, err := rpc.IPRouteAddDel(ctx, &ip.IPRouteAddDel{IsAdd: true, Route: route})
	must(err, "ip_route_add_del")
	check(find() == 1, "route is there", find())
	_, err = rpc.IPRouteAddDel(ctx, &ip.IPRouteAddDel{Route: route})
	must(err, "ip_route_add_del (delete)")
	check(find() == 0, "route is gone", find())
	bad := route
	bad.TableID = 77
	_, err = rpc.IPRouteAddDel(ctx, &ip.IPRouteAddDel{IsAdd: true, Route: bad})
	check(err == api.NO_SUCH_FIB, "a table that is not there", err)
}
