//! What a driver offers: receive and transmit queues, capabilities.
