mod both;
mod children;
mod handlers;
mod leases;
mod losses;
mod remote;
mod steps;
